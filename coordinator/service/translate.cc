// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/translate.h"

#include <algorithm>
#include <cmath>

#include "common/codec/codec.h"
#include "common/format/eval_task.h"
#include "common/plan/planner.h"
#include "common/telemetry/catalogue.h"
#include "common/wire/job_spec_proto.h"
#include "coordinator/engine/direction_watch.h"

namespace atl {
namespace {

constexpr double kMicro = 1e-6;
constexpr double kFastestLink = 1e15;  // bytes per second; a heartbeat with a higher value is wrong

void SetTime(int64_t wall_nanos, google::protobuf::Timestamp* out) {
  out->set_seconds(wall_nanos / 1'000'000'000);
  out->set_nanos(static_cast<int32_t>(wall_nanos % 1'000'000'000));
}

void SetDuration(Duration d, google::protobuf::Duration* out) {
  out->set_seconds(d.ns / 1'000'000'000);
  out->set_nanos(static_cast<int32_t>(d.ns % 1'000'000'000));
}

const char* Name(WorkerState state) {
  switch (state) {
    case WorkerState::kIdle: return "idle";
    case WorkerState::kJoining: return "joining";
    case WorkerState::kTraining: return "training";
    case WorkerState::kDraining: return "draining";
    case WorkerState::kLost: return "lost";
    case WorkerState::kQuarantined: return "quarantined";
    case WorkerState::kSilent: return "silent";
    case WorkerState::kLeft: return "left";
  }
  return "lost";
}

const char* Name(WorkerActivity activity) {
  switch (activity) {
    case WorkerActivity::kIdle: return "idle";
    case WorkerActivity::kFetching: return "fetching";
    case WorkerActivity::kTraining: return "training";
    case WorkerActivity::kWaiting: return "waiting";
    case WorkerActivity::kEvaluating: return "evaluating";
    case WorkerActivity::kDraining: return "draining";
  }
  return "idle";
}

v1::LedgerBalance ToProto(const BalanceView& balance) {
  v1::LedgerBalance out;
  out.set_dataset(balance.dataset);
  out.set_unleased(balance.unleased);
  out.set_leased(balance.leased);
  out.set_consumed(balance.consumed);
  out.set_abandoned(balance.abandoned);
  return out;
}

v1::TaskResult TaskMessage(const TaskScore& task) {
  v1::TaskResult out;
  out.set_name(task.name);
  out.set_examples(task.examples);
  out.set_correct(task.correct);
  out.set_accuracy(AccuracyOf(task.correct, task.examples));
  out.set_standard_error(StandardErrorOf(task.correct, task.examples));
  if (task.correct_per_byte) {
    out.set_correct_per_byte(*task.correct_per_byte);
    out.set_accuracy_per_byte(AccuracyOf(*task.correct_per_byte, task.examples));
  }
  return out;
}

}  // namespace

v1::JobState ToProto(JobState state) { return static_cast<v1::JobState>(state); }

v1::EvaluationResult ToProto(const EvaluationRecord& record) {
  v1::EvaluationResult out;
  out.set_evaluation(record.evaluation);
  out.set_step(record.clock_step);
  const double tokens = static_cast<double>(std::max<uint64_t>(1, record.tokens));
  const double loss = static_cast<double>(record.nll_micro_nats) * kMicro / tokens;
  out.set_loss(loss);
  out.set_perplexity(std::exp(loss));
  if (record.text_bytes > 0) {
    out.set_bits_per_byte(static_cast<double>(record.nll_micro_nats) * kMicro / std::log(2.0) /
                          static_cast<double>(record.text_bytes));
  }
  out.set_tokens(record.tokens);
  out.set_trained_tokens(record.trained_tokens);
  for (const TaskScore& task : record.tasks) *out.add_tasks() = TaskMessage(task);
  SetTime(record.wall_nanos, out.mutable_time());
  return out;
}

v1::JobEvent ToProto(const EventLine& line) {
  v1::JobEvent out;
  out.set_revision(line.revision);
  SetTime(line.wall_nanos, out.mutable_time());
  out.set_kind(line.kind);
  out.set_text(line.text);
  for (const auto& [key, value] : line.fields) (*out.mutable_fields())[key] = value;
  return out;
}

v1::Checkpoint ToProto(const CheckpointRecord& record, const JobView& job,
                       const std::vector<uint64_t>& fragment_elements) {
  v1::Checkpoint out;
  out.set_name(absl::StrCat("jobs/", record.job.value, "/checkpoints/", record.step));
  out.set_step(record.step);
  for (const Version& version : record.versions) out.add_versions(version.value);
  for (const Digest& hash : record.hashes) out.add_content_hashes(hash.Hex());
  uint64_t elements = 0;
  for (const uint64_t n : fragment_elements) elements += n;
  out.set_bytes(elements * sizeof(float));
  SetTime(record.wall_nanos, out.mutable_create_time());
  for (const EvaluationRecord& evaluation : job.evaluations) {
    if (evaluation.versions == record.versions) out.set_evaluation_loss(ToProto(evaluation).loss());
  }
  return out;
}

double TokensPerSecond(const WorkerView& worker, const JobSpec& spec) {
  const bool works =
      worker.last.activity == WorkerActivity::kTraining || worker.last.activity == WorkerActivity::kWaiting;
  if (!worker.connected || !worker.silence.empty() || !works || worker.last.step_ns <= 0) return 0;
  const double tokens = static_cast<double>(spec.batch.sequences_per_step) * spec.data.sequence_length;
  return tokens * 1e9 / static_cast<double>(worker.last.step_ns);
}

namespace {

// The value in the newest heartbeat; nothing if the worker has not measured it, or sent a value
// that is not finite.
std::optional<double> Sample(const WorkerView& worker, Metric metric) {
  for (const MetricSample& sample : worker.last.metrics) {
    if (sample.name == HeartbeatName(metric) && std::isfinite(sample.value)) return sample.value;
  }
  return std::nullopt;
}

void SetMeasured(const WorkerView& worker, v1::WorkerStatus& out) {
  const auto used = Sample(worker, Metric::kComputeUtilization);
  const auto up = Sample(worker, Metric::kUploadRate), down = Sample(worker, Metric::kDownloadRate);
  const auto lost = Sample(worker, Metric::kUploadError);
  if (used) out.set_compute_utilization_ratio(*used);
  if (up) out.set_upload_bytes_per_second(*up);
  if (down) out.set_download_bytes_per_second(*down);
  if (lost) out.set_upload_error_ratio(*lost);
}

// The spec with this worker's own steps as sync.inner_steps (pace balanced), which determine the load of its link.
JobSpec AtItsPace(const WorkerView& worker, const JobSpec& spec) {
  JobSpec out = spec;
  const uint32_t steps = worker.last.period_steps;
  if (spec.sync.pace != Pace::kBalanced || steps == 0 || steps >= spec.sync.inner_steps) return out;
  out.sync.inner_steps = steps;
  const uint64_t overlap = uint64_t{spec.sync.overlap_steps} * steps / spec.sync.inner_steps;
  out.sync.overlap_steps = static_cast<uint32_t>(std::min<uint64_t>(overlap, steps - 1));
  return out;
}

}  // namespace

std::optional<double> PlannedUtilization(const WorkerView& worker, const JobSpec& spec,
                                         const std::vector<uint64_t>& fragment_elements) {
  const auto up = Sample(worker, Metric::kUploadRate), down = Sample(worker, Metric::kDownloadRate);
  const auto usable = [](const std::optional<double>& rate) { return rate && *rate >= 1 && *rate <= kFastestLink; };
  if (!usable(up) || !usable(down) || worker.last.step_ns <= 0 || fragment_elements.empty()) return std::nullopt;
  const LinkCapacity link{.upload_bytes_per_second = *up, .download_bytes_per_second = *down, .latency_seconds = 0};
  return RunUtilization(AtItsPace(worker, spec), fragment_elements, static_cast<double>(worker.last.step_ns) * 1e-9,
                        link, &EncodedSize);
}

namespace {

// Findings of the screens on a worker: norms from the core, direction in the newest rounds from the engine.
std::string HeldAgainst(const WorkerView& worker, const JobHistory* totals) {
  std::string held = worker.screened;
  if (totals == nullptr || worker.state == WorkerState::kQuarantined) return held;
  for (const auto& [fragment, measures] : totals->measures) {
    for (const ContributionMeasures& c : measures.contributions) {
      if (c.worker != worker.worker || !c.against_others) continue;
      absl::StrAppend(&held, held.empty() ? "" : "; ", AgainstClause(fragment, c.others_mean.value_or(0)));
    }
  }
  return held;
}

}  // namespace

v1::WorkerStatus ToProto(const WorkerView& worker, const JobHistory* totals, const JobSpec* spec) {
  v1::WorkerStatus out;
  out.set_name(absl::StrCat("workers/", worker.worker.value));
  out.set_state(Name(worker.state));
  if (worker.connected && worker.silence.empty()) out.set_activity(Name(worker.last.activity));
  out.set_step(worker.last.step);
  out.set_tokens(worker.last.tokens_total);
  out.set_loss(static_cast<double>(worker.last.loss_micro) * kMicro);
  if (spec != nullptr) out.set_tokens_per_second(TokensPerSecond(worker, *spec));
  SetDuration(worker.heartbeat_age, out.mutable_heartbeat_age());
  out.set_waiting_for(worker.silence.empty() ? worker.last.waiting_for : worker.silence);
  out.set_incarnation(worker.incarnation.value);
  out.set_device(worker.device);
  if (!worker.job.value.empty()) out.set_job(absl::StrCat("jobs/", worker.job.value));
  out.set_participating(worker.participating);
  out.set_link_too_slow(worker.link_too_slow);
  out.set_not_waited_for(worker.not_waited_for);
  out.set_cordoned(worker.cordoned);
  out.set_screened(HeldAgainst(worker, totals));
  out.set_corpus(worker.corpus);
  SetMeasured(worker, out);
  const bool paced = spec != nullptr && spec->sync.pace == Pace::kBalanced && worker.last.period_steps > 0;
  if (paced) out.set_period_steps(worker.last.period_steps);
  if (totals != nullptr) {
    const auto up = totals->uploaded_bytes.find(worker.worker);
    const auto down = totals->downloaded_bytes.find(worker.worker);
    if (up != totals->uploaded_bytes.end()) out.set_uploaded_bytes(up->second);
    if (down != totals->downloaded_bytes.end()) out.set_downloaded_bytes(down->second);
    const auto share = totals->participation.find(worker.worker);
    if (share != totals->participation.end()) out.set_participation_ratio(share->second);
  }
  return out;
}

namespace {

// `whole`: includes each contribution.
void SetDiagnostics(const RoundMeasures& measures, bool whole, v1::RoundDiagnostics& out) {
  out.set_pseudo_gradient_norm(measures.merged_norm);
  out.set_mean_cosine_ratio(measures.mean_cosine);
  if (measures.merged_norm > 0) out.set_outer_step_gain_ratio(measures.outer_step_norm / measures.merged_norm);
  if (measures.step_alignment) out.set_outer_step_alignment_ratio(*measures.step_alignment);
  if (measures.momentum_mean) out.set_momentum_alignment_ratio(*measures.momentum_mean);
  out.set_download_error_ratio(measures.download_error);
  out.set_staleness_steps(measures.staleness_steps);
  if (!whole) return;
  for (const ContributionMeasures& c : measures.contributions) {
    v1::ContributionDiagnostics* one = out.add_contributions();
    one->set_worker(absl::StrCat("workers/", c.worker.value));
    one->set_weight(c.weight);
    one->set_norm(c.norm);
    one->set_cosine_ratio(c.cosine_to_merged);
    one->set_staleness_steps(c.staleness_steps);
    if (c.upload_error) one->set_upload_error_ratio(*c.upload_error);
  }
}

}  // namespace

std::string EtagOf(const JobView& view) {
  return absl::StrCat(view.record.spec_revision, "-", view.record.epoch, "-", static_cast<uint32_t>(view.record.state));
}

v1::Job ToProto(const JobGlance& glance, uint64_t parameters, const std::vector<uint64_t>& fragment_elements,
                bool with_spec) {
  const JobView& view = glance.view;
  const JobRecord& record = view.record;
  v1::Job out;
  out.set_name(absl::StrCat("jobs/", record.job.value));
  if (with_spec) *out.mutable_spec() = JobSpecToProto(record.spec);
  out.set_spec_revision(record.spec_revision);
  out.set_state(ToProto(record.state));
  const bool waiting = !HasEnded(record.state) && (record.reason.empty() || view.no_room);
  // A closing job has a reason for closing, and may wait for something before its end.
  const bool closing = record.state == JobState::kClosing && !view.waiting_line.empty();
  out.set_reason(waiting   ? view.waiting_line
                 : closing ? absl::StrCat(record.reason, "; ", view.waiting_line)
                           : record.reason);
  for (const auto& [key, value] : record.spec.labels) (*out.mutable_labels())[key] = value;
  out.set_step(view.clock_step);
  // After a drain the job clock ends a few steps after the stop step, because workers had gone on.
  out.set_stop_step(HasEnded(record.state) && record.draining ? std::max(record.stop_step, view.clock_step)
                                                              : record.stop_step);
  out.set_tokens(view.tokens_committed);
  uint64_t round = view.fragments.empty() ? 0 : UINT64_MAX;
  for (size_t i = 0; i < view.fragments.size(); ++i) {
    const FragmentView& fragment = view.fragments[i];
    round = std::min(round, fragment.version.value);
    v1::FragmentStatus* status = out.add_fragments();
    status->set_fragment(static_cast<uint32_t>(i));
    status->set_version(fragment.version.value);
    status->set_accepted(fragment.accepted);
    status->set_expected(fragment.expected);
    status->set_dropped(fragment.dropped);
    status->set_content_hash(fragment.hash.Hex());
    if (i < fragment_elements.size()) status->set_elements(fragment_elements[i]);
    const auto measured = glance.totals.measures.find(FragmentIndex{static_cast<uint32_t>(i)});
    if (measured != glance.totals.measures.end())
      SetDiagnostics(measured->second, with_spec, *status->mutable_newest());
  }
  out.set_round(round);
  out.set_rounds_committed(view.rounds_committed);
  out.set_loss(glance.totals.last_loss);
  out.set_tokens_per_second(glance.tokens_per_second);
  out.set_workers_alive(view.alive);
  out.set_workers_training(view.training);
  out.set_workers_participating(view.participating);
  out.set_workers_pool(view.pool);
  if (!view.evaluations.empty()) {
    *out.mutable_first_evaluation() = ToProto(view.evaluations.front());
    *out.mutable_last_evaluation() = ToProto(view.evaluations.back());
  }
  if (record.create_wall_nanos > 0) SetTime(record.create_wall_nanos, out.mutable_create_time());
  if (record.start_wall_nanos > 0) SetTime(record.start_wall_nanos, out.mutable_start_time());
  if (record.end_wall_nanos > 0) SetTime(record.end_wall_nanos, out.mutable_end_time());
  out.set_parameters(parameters);
  out.set_etag(EtagOf(view));
  out.set_uploaded_bytes(glance.totals.uploaded_total);
  out.set_downloaded_bytes(glance.totals.downloaded_total);
  *out.mutable_ledger() = ToProto(view.balance);
  if (glance.seconds_left >= 0) {
    SetDuration(Nanoseconds(static_cast<int64_t>(glance.seconds_left * 1e9)), out.mutable_remaining());
  }
  return out;
}

}  // namespace atl
