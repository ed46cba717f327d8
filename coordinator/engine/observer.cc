// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/observer.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/format/eval_task.h"
#include "common/plan/limits.h"
#include "coordinator/core/explain.h"
#include "coordinator/core/round_loss.h"
#include "coordinator/engine/engine.h"
#include "coordinator/engine/event_lines.h"

namespace atl {
namespace {

constexpr Duration kPublishInterval = Seconds(1);
constexpr Duration kEndedShown = Seconds(3600);  // series of an ended job
constexpr Duration kLostShown = Seconds(3600);   // gauge of a lost worker's age; many never return
constexpr double kMicro = 1e-6;
constexpr std::string_view kScreenedOut = "refused";
constexpr char kEvaluated[] = "evaluation";   // JobNote::kind
constexpr size_t kMergesRewritten = 100'000;  // lines of rounds, per fragment and epoch, at one start
constexpr size_t kTransfersInLine = 256;      // workers, so that a line stays readable in one piece

// The screening outcome that a line counts as; null for other lines.
const char* ScreenOutcome(const std::string& kind) {
  if (kind == "contribution stands out") return "reported";
  if (kind == "contribution clipped") return "clipped";
  return kind == "contribution refused" ? kScreenedOut.data() : nullptr;
}

double MeanLoss(const RoundRecord& record) {
  const int64_t most = MostLossCountedMicro(record);
  double sum = 0, tokens = 0;
  for (const CommittedContribution& contribution : record.contributions) {
    sum += static_cast<double>(std::min(contribution.header.mean_loss_micro, most)) * kMicro *
           static_cast<double>(contribution.header.tokens);
    tokens += static_cast<double>(contribution.header.tokens);
  }
  return tokens > 0 ? sum / tokens : 0;
}

// All values of a committed round. With MeasuredFields, each dashboard figure can be rebuilt from the event log.
std::map<std::string, std::string> MergeFields(const RoundRecord& record, double loss) {
  std::vector<std::string> members;
  for (const CommittedContribution& contribution : record.contributions) {
    const ContributionHeader& header = contribution.header;
    members.push_back(absl::StrFormat("%s:weight=%.6f,tokens=%d,steps=%d,bytes=%d,digest=%s", header.worker.value,
                                      contribution.weight, header.tokens, header.steps, header.encoded_bytes,
                                      header.digest.Hex()));
  }
  return {{"contributions", absl::StrJoin(members, " ")},        {"hash", record.hash.Hex()},
          {"update_bytes", absl::StrCat(record.update_bytes)},   {"clock_step", absl::StrCat(record.clock_step)},
          {"spec_revision", absl::StrCat(record.spec_revision)}, {"learning_rate", absl::StrCat(record.learning_rate)},
          {"momentum", absl::StrCat(record.momentum)},           {"loss", absl::StrFormat("%.6f", loss)}};
}

// Values known only to the process that merged the round.
std::map<std::string, std::string> MeasuredFields(const RoundMeasures& measures) {
  return {{"merged_norm", absl::StrFormat("%.6g", measures.merged_norm)},
          {"outer_step_norm", absl::StrFormat("%.6g", measures.outer_step_norm)},
          {"mean_cosine", absl::StrFormat("%.4f", measures.mean_cosine)},
          {"aggregate_ms", absl::StrFormat("%.3f", static_cast<double>(measures.aggregate_ns) * 1e-6)}};
}

const char* StateName(JobState state) {
  switch (state) {
    case JobState::kPending: return "pending";
    case JobState::kWaitingForWorkers: return "waiting_for_workers";
    case JobState::kRunning: return "running";
    case JobState::kPaused: return "paused";
    case JobState::kClosing: return "closing";
    case JobState::kSucceeded: return "succeeded";
    case JobState::kFailed: return "failed";
    case JobState::kCancelled: return "cancelled";
  }
  return "unknown";
}

}  // namespace

void Observer::RecoverTimes(const RecoveredJob& job) {
  const JobRecord& record = job.job;
  if (HasEnded(record.state) || record.start_wall_nanos == 0) return;
  const int64_t round = job.round_wall_nanos != 0 ? job.round_wall_nanos : record.start_wall_nanos;
  int64_t checkpoint = 0;
  for (const CheckpointRecord& done : job.checkpoints) {
    if (done.complete) checkpoint = std::max(checkpoint, done.wall_nanos);
  }
  // The ledger does not hold the time at which a spec update first enabled checkpoints.
  if (checkpoint == 0) checkpoint = record.spec_revision > 1 ? clock_.WallNanos() : record.start_wall_nanos;
  BeginTimes(record.job, round, record.spec.checkpoint.every_rounds > 0 ? checkpoint : 0);
}

void Observer::BeginTimes(const JobId& job, int64_t round, int64_t checkpoint) {
  if (rounds_timed_.insert(job).second)
    metrics_.Set(Metric::kRoundLastSuccess, static_cast<double>(round) * 1e-9, {job.value});
  if (checkpoint == 0) {
    if (checkpoints_timed_.erase(job) > 0) metrics_.Forget(Metric::kCheckpointLastSuccess, {job.value});
  } else if (checkpoints_timed_.insert(job).second) {
    metrics_.Set(Metric::kCheckpointLastSuccess, static_cast<double>(checkpoint) * 1e-9, {job.value});
  }
}

void Observer::WriteMissing(const RecoveredJob& job, const LoggedVersions& logged, const Ledger& ledger) {
  const uint64_t first_epoch = logged.empty() ? 0 : logged.begin()->first.first;  // older lines were rotated away
  for (uint64_t epoch = first_epoch; epoch <= job.job.epoch; ++epoch) {
    for (uint32_t i = 0; i < job.heads.size(); ++i) {
      const auto found = logged.find({epoch, FragmentIndex{i}});
      const std::set<uint64_t> there = found == logged.end() ? std::set<uint64_t>{} : found->second;
      uint64_t whole = there.empty() ? 0 : *there.begin();  // no version is missing up to here
      while (there.contains(whole + 1)) ++whole;
      if (epoch == job.job.epoch && whole >= job.heads[i].version.value) continue;
      const auto rounds = ledger.Rounds(job.job.job, epoch, FragmentIndex{i}, Version{whole}, kMergesRewritten);
      if (!rounds.ok()) {
        log_.Warn("event log incomplete",
                  {{"job", job.job.job.value}, {"reason", std::string(rounds.status().message())}});
        return;
      }
      // The line of the rollback that began this epoch is lost too: its effect on the curves is repeated here.
      if (i == 0 && epoch > 0 && there.empty() && !rounds->empty())
        DropPointsAfter(job.job.job, rounds->front().clock_step - 1);
      for (const RoundRecord& round : *rounds) {
        const uint64_t version = round.reached.version.value;
        if (!there.contains(version)) WriteFromLedger(round, there.empty() || version > *there.rbegin());
      }
    }
  }
}

void Observer::WriteFromLedger(const RoundRecord& record, bool newest) {
  const double loss = MeanLoss(record);
  JobNote note = RoundCommittedNote(record);
  note.fields.merge(MergeFields(record, loss));
  if (newest && !record.contributions.empty()) {  // a curve only moves forward
    history_.Of(record.job).last_loss = loss;
    history_.AddPoint(record.job, kLossCurve, {record.clock_step, record.wall_nanos, loss});
    pending_points_[record.job].push_back({kLossCurve, record.clock_step, loss});
  }
  AddFromLedger(std::move(note), record.wall_nanos);
}

void Observer::AddFromLedger(JobNote note, int64_t wall_nanos) {
  note.fields[kFromLedgerField] = "true";
  Add(note.job, {.revision = 0,
                 .wall_nanos = wall_nanos,
                 .kind = std::move(note.kind),
                 .text = std::move(note.text),
                 .fields = std::move(note.fields)});
}

void Observer::Add(const JobId& job, EventLine line) {
  const JobHistory& history = history_.Of(job);
  line.fields[kUploadedField] = absl::StrCat(history.uploaded_total);
  line.fields[kDownloadedField] = absl::StrCat(history.downloaded_total);
  line.revision = history_.AddEvent(job, line);
  Write(job, line);
}

void Observer::Connected(ConnectionId connection, const WorkerId& worker) {
  worker_of_[connection] = worker;
  connection_of_[worker] = connection;
  heartbeat_at_.erase(worker);
}

void Observer::Disconnected(ConnectionId connection) {
  const auto it = worker_of_.find(connection);
  if (it == worker_of_.end()) return;
  const auto current = connection_of_.find(it->second);
  if (current != connection_of_.end() && current->second == connection) {
    metrics_.ForgetWorker(it->second);
    diagnostics_.Gone(it->second);
    heartbeat_at_.erase(it->second);
    connection_of_.erase(current);
  }
  worker_of_.erase(it);
}

std::optional<ConnectionId> Observer::ConnectionOf(const WorkerId& worker) const {
  const auto it = connection_of_.find(worker);
  if (it == connection_of_.end()) return std::nullopt;
  return it->second;
}

void Observer::Heard(ConnectionId connection, const Heartbeat& heartbeat) {
  const auto it = worker_of_.find(connection);
  if (it == worker_of_.end()) return;
  metrics_.SetFromHeartbeat(it->second, heartbeat);
  const Instant now = clock_.Now();
  const auto [last, first] = heartbeat_at_.try_emplace(it->second, now);
  if (!first) metrics_.Observe(Metric::kHeartbeatGap, ToSeconds(now - last->second), {it->second.value});
  last->second = now;
  diagnostics_.Heard(it->second, heartbeat);
}

void Observer::Committed(const std::vector<LedgerRecord>& records) {
  for (const LedgerRecord& record : records) {
    if (const auto* evaluation = std::get_if<EvaluationRecord>(&record)) OnEvaluation(*evaluation);
    if (const auto* job = std::get_if<JobRecord>(&record);
        job != nullptr && job->start_wall_nanos != 0 && !HasEnded(job->state)) {
      const int64_t now = clock_.WallNanos();  // time of the start, or of the update that enables checkpoints
      BeginTimes(job->job, now, job->spec.checkpoint.every_rounds > 0 ? now : 0);
    }
    if (const auto* gone = std::get_if<WorkerForgotten>(&record)) {
      history_.Forget(gone->worker);
      metrics_.ForgetWorker(gone->worker);  // a transfer that ended after its connection created the series again
    }
    if (const auto* checkpoint = std::get_if<CheckpointRecord>(&record);
        checkpoint != nullptr && checkpoint->complete && checkpoints_timed_.contains(checkpoint->job)) {
      metrics_.Set(Metric::kCheckpointLastSuccess, static_cast<double>(checkpoint->wall_nanos) * 1e-9,
                   {checkpoint->job.value});
    }
  }
}

void Observer::OnRound(const RoundRecord& record, RoundMeasures measures) {
  const std::string& job = record.job.value;
  const double loss = MeanLoss(record);
  const bool empty = record.contributions.empty();  // every sync was dropped: nothing was measured
  if (!empty) {
    history_.Of(record.job).last_loss = loss;
    AddPoint(record.job, kLossCurve, record.clock_step, loss);
    metrics_.Set(Metric::kJobTrainLoss, loss, {job});
  }
  if (!record.dropped.empty()) metrics_.Add(Metric::kSyncsDropped, static_cast<double>(record.dropped.size()), {job});
  metrics_.Set(Metric::kRound, static_cast<double>(record.reached.version.value),
               {job, absl::StrCat(record.reached.fragment.value)});
  metrics_.Add(Metric::kRoundsCompleted, 1, {job, "committed"});
  metrics_.Set(Metric::kRoundParticipants, static_cast<double>(record.contributions.size()), {job});
  metrics_.Set(Metric::kRoundLastSuccess, static_cast<double>(record.wall_nanos) * 1e-9, {job});
  const Instant now = clock_.Now();
  const auto last = last_round_.find({record.job, record.reached.fragment});
  if (last != last_round_.end()) {
    const double seconds = ToSeconds(now - last->second);
    metrics_.Observe(Metric::kRoundDuration, seconds, {job});
    AddPoint(record.job, "round_seconds", record.clock_step, seconds);
    if (seconds > 0)
      AddPoint(record.job, "tokens_per_second", record.clock_step, static_cast<double>(record.tokens) / seconds);
  }
  std::map<std::string, std::string> fields = MergeFields(record, loss);
  fields.merge(MeasuredFields(measures));
  Diagnostics::Outcome diagnosed = diagnostics_.OnRound(record, measures);
  fields.merge(diagnosed.fields);
  for (JobNote& warning : diagnosed.warnings) warnings_[record.job].push_back(std::move(warning));
  if (last != last_round_.end()) fields["round_seconds"] = absl::StrFormat("%.3f", ToSeconds(now - last->second));
  round_fields_[record.job].push_back(std::move(fields));
  last_round_[{record.job, record.reached.fragment}] = now;
  metrics_.Set(Metric::kPseudoGradientNorm, measures.merged_norm, {job});
  metrics_.Set(Metric::kPseudoGradientCosine, measures.mean_cosine, {job});
  metrics_.Observe(Metric::kRoundPhaseDuration, static_cast<double>(measures.aggregate_ns) * 1e-9, {"aggregate"});
  if (!empty) {
    AddPoint(record.job, "pseudo_gradient_norm", record.clock_step, measures.merged_norm);
    AddPoint(record.job, "outer_step_norm", record.clock_step, measures.outer_step_norm);
  }
  JobHistory& history = history_.Of(record.job);
  history.participation = diagnostics_.Participation(record.job);
  history.measures[record.reached.fragment] = std::move(measures);
}

void Observer::OnEvaluation(const EvaluationRecord& record) {
  const double loss =
      static_cast<double>(record.nll_micro_nats) * kMicro / static_cast<double>(std::max<uint64_t>(1, record.tokens));
  AddPoint(record.job, "evaluation_loss", record.clock_step, loss);
  AddPoint(record.job, "perplexity", record.clock_step, std::exp(loss));
  metrics_.Set(Metric::kJobEvaluationLoss, loss, {record.job.value});
  std::map<std::string, std::string> fields;
  for (const TaskScore& task : record.tasks) {
    const double accuracy = AccuracyOf(task.correct, task.examples),
                 error = StandardErrorOf(task.correct, task.examples);
    AddPoint(record.job, "task_accuracy/" + task.name, record.clock_step, accuracy);
    AddPoint(record.job, "task_standard_error/" + task.name, record.clock_step, error);
    metrics_.Set(Metric::kTaskAccuracy, accuracy, {record.job.value, task.name});
    metrics_.Set(Metric::kTaskStandardError, error, {record.job.value, task.name});
    fields["task_accuracy/" + task.name] = absl::StrFormat("%.4f", accuracy);
    fields["task_standard_error/" + task.name] = absl::StrFormat("%.4f", error);
  }
  evaluation_fields_[record.job].push_back(std::move(fields));
}

void Observer::DropPointsAfter(const JobId& job, uint64_t step) {
  history_.DropPointsAfter(job, step);
  std::erase_if(pending_points_[job], [step](const LoggedPoint& point) { return point.step > step; });
}

void Observer::AddPoint(const JobId& job, const std::string& curve, uint64_t step, double value) {
  history_.AddPoint(job, curve, {step, clock_.WallNanos(), value});
  pending_points_[job].push_back({curve, step, value});
}

void Observer::Note(const JobNote& note) {
  std::optional<uint64_t> untold = 0;
  if (note.kind == kDeviant || note.kind == kContradicted) {
    if (at_will_.size() > limits::kWorkers) at_will_.clear();  // most are of workers that have left
    untold = at_will_[WorkerId{note.fields.at("worker")}].Take(clock_.Now());
  }
  if (!untold) return;
  if (note.kind == kRolledBack) DropPointsAfter(note.job, NumberOf(note.fields, "step"));
  EventLine line{
      .revision = 0, .wall_nanos = clock_.WallNanos(), .kind = note.kind, .text = note.text, .fields = note.fields};
  if (*untold > 0) line.fields["not_told_before"] = absl::StrCat(*untold);
  if (note.kind == kRoundCommitted && !round_fields_[note.job].empty()) {
    line.fields.merge(round_fields_[note.job].front());
    round_fields_[note.job].pop_front();
  }
  if (note.kind == kEvaluated && !evaluation_fields_[note.job].empty()) {
    line.fields.merge(evaluation_fields_[note.job].front());
    evaluation_fields_[note.job].pop_front();
  }
  const char* const outcome = ScreenOutcome(note.kind);
  if (outcome != nullptr) metrics_.Add(Metric::kContributionsScreened, 1, {note.job.value, outcome});
  const bool is_refusal = note.kind == kUploadRefused || (outcome != nullptr && outcome == kScreenedOut);
  log_.Write(is_refusal ? LogLevel::kWarning : LogLevel::kInfo, note.kind,
             {{"job", note.job.value}, {"text", note.text}});
  Add(note.job, std::move(line));
  if (note.kind != kRoundCommitted) return;
  for (const JobNote& warning : std::exchange(warnings_[note.job], {})) Note(warning);
}

std::vector<LoggedTransfer> Observer::TransfersToLog(const JobId& job) {
  const JobHistory& history = history_.Of(job);
  const auto of = [](const std::map<WorkerId, uint64_t>& accounts, const WorkerId& worker) {
    const auto it = accounts.find(worker);
    return it == accounts.end() ? 0 : it->second;
  };
  Moved& moved = moved_[job];
  std::vector<LoggedTransfer> transfers;
  while (!moved.workers.empty() && transfers.size() < kTransfersInLine) {
    auto next = moved.workers.upper_bound(moved.last);  // round robin, so that no worker is left out
    if (next == moved.workers.end()) next = moved.workers.begin();
    moved.last = *next;
    moved.workers.erase(next);
    transfers.push_back({moved.last, of(history.uploaded_bytes, moved.last), of(history.downloaded_bytes, moved.last)});
  }
  return transfers;
}

void Observer::Write(const JobId& job, const EventLine& line) {
  LoggedEvent event{job,
                    line.revision,
                    line.wall_nanos,
                    line.kind,
                    line.text,
                    line.fields,
                    std::exchange(pending_points_[job], {}),
                    TransfersToLog(job)};
  // A full disk loses lines for people, which the log counts; only the ledger must lose nothing.
  const absl::Status written = events_.Append(event);
  if (!written.ok())
    log_.Warn("event log lines lost", {{"job", job.value}, {"reason", std::string(written.message())}});
}

void Observer::Refused(const JobId& job, const WorkerId& worker, const absl::Status& status) {
  metrics_.Add(Metric::kUpdatesRejected, 1, {job.value, RefusalReason(status)});
  if (const auto note = refusals_.OnRefused(job, worker, status, clock_.Now())) Note(*note);
}

void Observer::Uploaded(const JobId& job, const WorkerId& worker, uint64_t bytes) {
  history_.CountUpload(job, worker, bytes);
  if (!worker.value.empty()) moved_[job].workers.insert(worker);
  metrics_.Add(Metric::kTransferBytes, static_cast<double>(bytes), {job.value, worker.value, "upload", "contribution"});
}

void Observer::Downloaded(const JobId& job, const WorkerId& worker, const std::string& kind, uint64_t bytes) {
  history_.CountDownload(job, worker, bytes);
  if (!worker.value.empty()) moved_[job].workers.insert(worker);
  metrics_.Add(Metric::kTransferBytes, static_cast<double>(bytes), {job.value, worker.value, "download", kind});
}

void Observer::Publish(const Core& core, Instant now) {
  if (now < next_publish_) return;
  next_publish_ = now + kPublishInterval;
  std::map<JobState, int> by_state;
  for (const JobId& job : core.Jobs()) {
    const std::optional<JobView> view = core.ViewJob(job, now);
    ++by_state[view->record.state];
    const bool ended = HasEnded(view->record.state);
    if (ended && shown_.erase(job) == 0) continue;  // an ended job gets its final values once
    if (ended) ended_[job] = now;
    if (!ended) shown_.insert(job);
    NoteClock(*view, now);
    metrics_.Set(Metric::kJobStopped, view->stopped ? 1 : 0, {job.value});
    metrics_.Set(Metric::kJobClockStep, static_cast<double>(view->clock_step), {job.value});
    metrics_.Set(Metric::kJobTokensCommitted, static_cast<double>(view->tokens_committed), {job.value});
    metrics_.Set(Metric::kWorkers, ended ? 0 : view->alive, {job.value, "alive"});
    metrics_.Set(Metric::kWorkers, ended ? 0 : view->training, {job.value, "training"});
    metrics_.Set(Metric::kWorkers, ended ? 0 : view->participating, {job.value, "participating"});
    metrics_.Set(Metric::kWorkers, ended ? 0 : view->not_waited_for, {job.value, "not_waited_for"});
    metrics_.Set(Metric::kWorkers, view->missing, {job.value, "missing"});
    if (view->pool > 0) metrics_.Set(Metric::kWorkers, ended ? 0 : view->pool, {job.value, "pool"});
  }
  std::erase_if(ended_, [&](const auto& job) {
    const bool over = now - job.second >= kEndedShown;
    if (over) ForgetJob(job.first);
    return over;
  });
  for (const JobState state : {JobState::kPending, JobState::kWaitingForWorkers, JobState::kRunning, JobState::kPaused,
                               JobState::kClosing, JobState::kSucceeded, JobState::kFailed, JobState::kCancelled}) {
    metrics_.Set(Metric::kJobs, by_state[state], {StateName(state)});
  }
  double quarantined = 0;
  for (const WorkerView& worker : core.ViewWorkers(now)) {
    quarantined += worker.state == WorkerState::kQuarantined && !worker.evicted ? 1 : 0;
    PublishAge(worker);
  }
  metrics_.Set(Metric::kWorkersQuarantined, quarantined, {});
}

void Observer::ForgetJob(const JobId& job) {
  metrics_.ForgetJob(job);
  diagnostics_.ForgetJob(job);
  clock_rates_.erase(job);
  moved_.erase(job);
  std::erase_if(last_round_, [&job](const auto& entry) { return entry.first.first == job; });
}

void Observer::PublishAge(const WorkerView& worker) {
  const bool lost = worker.state == WorkerState::kLost && !(worker.unheard && worker.job.value.empty());
  if (worker.connected || (lost && worker.heartbeat_age < kLostShown)) {
    metrics_.Set(Metric::kHeartbeatAge, ToSeconds(worker.heartbeat_age), {worker.worker.value});
    if (lost) lost_shown_.insert(worker.worker);
  } else if (lost_shown_.erase(worker.worker) > 0) {
    metrics_.ForgetWorker(worker.worker);
  }
}

void Observer::NoteClock(const JobView& view, Instant now) {
  const bool running = view.record.state == JobState::kRunning && view.rounds_committed > 0;
  clock_rates_[view.record.job].Note(view.clock_step, running, now);
}

double Observer::StepsPerSecond(const JobView& view, Instant now) const {
  const auto it = clock_rates_.find(view.record.job);
  return it == clock_rates_.end() ? 0 : it->second.PerSecond(view.clock_step, now);
}

void ObserveRates(JobGlance& glance, Instant now, const Observer& observer) {
  const JobSpec& spec = glance.view.record.spec;
  for (const WorkerView& worker : glance.workers) {
    if (!worker.connected || worker.state != WorkerState::kTraining || worker.last.step_ns <= 0) continue;
    glance.tokens_per_second += static_cast<double>(spec.batch.sequences_per_step) * spec.data.sequence_length * 1e9 /
                                static_cast<double>(worker.last.step_ns);
  }
  const double rate = observer.StepsPerSecond(glance.view, now);
  const uint64_t stop = glance.view.record.stop_step;
  if (rate > 0 && stop > glance.view.clock_step)
    glance.seconds_left = static_cast<double>(stop - glance.view.clock_step) / rate;
}

}  // namespace atl
