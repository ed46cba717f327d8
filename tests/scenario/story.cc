// SPDX-License-Identifier: Apache-2.0
#include "tests/scenario/story.h"

#include <algorithm>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "tests/scenario/render.h"

namespace atl {
namespace {

using Lines = std::vector<std::string>;

std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> out;
  std::stringstream in(text);
  for (std::string part; std::getline(in, part, at);) out.push_back(part);
  return out;
}

std::vector<LeaseCursor> Cursors(const std::string& text) {
  std::vector<LeaseCursor> out;
  for (const std::string& part : Split(text, ',')) {
    const auto pair = Split(part, ':');
    out.push_back({LeaseId{std::stoull(pair.at(0))}, std::stoull(pair.at(1))});
  }
  return out;
}

FragmentVersion Target(const std::string& text) {
  const auto pair = Split(text, '/');
  return {FragmentIndex{static_cast<uint32_t>(std::stoul(pair.at(0)))}, Version{std::stoull(pair.at(1))}};
}

Digest HashOf(uint32_t fragment, uint64_t epoch, uint64_t version) { return {epoch * 1000 + fragment, version + 1}; }

void Append(Lines& to, Lines more) { to.insert(to.end(), more.begin(), more.end()); }

}  // namespace

std::string Story::Words::Rest(size_t i) const {
  std::string out;
  for (; i < words.size(); ++i) absl::StrAppend(&out, out.empty() ? "" : " ", words[i]);
  return out;
}

uint64_t Story::Words::Number(const std::string& key, uint64_t otherwise) const {
  const auto it = values.find(key);
  return it == values.end() ? otherwise : std::stoull(it->second);
}

Story::Words Story::Parse(const std::string& command) {
  Words out;
  for (const std::string& word : Split(command, ' ')) {
    const size_t equals = word.find('=');
    if (word.empty()) continue;
    if (equals == std::string::npos) {
      out.words.push_back(word);
    } else {
      out.values[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  return out;
}

Story::Story() : options_{Seconds(2), Seconds(20)}, now_(Instant{} + Seconds(1000)) {
  core_ = std::make_unique<Core>(options_, ledger_.State(BootNumber{boot_}), now_);
  Take(core_->Start(now_));
}

Lines Story::Step(const Event& event) {
  Lines lines = Take(core_->Step(event, now_));
  if (core_->NextWake() > now_) {
    ATOLL_CHECK(core_->Step(Tick{}, now_).count() == 0, "the core is not at rest after a step");
  }
  return lines;
}

Lines Story::Take(const Effects& effects) {
  core_->CheckInvariants();
  ledger_.Apply(effects.records);
  for (const LedgerRecord& record : effects.records) {
    claims_.Hear(record);
    if (const auto* round = std::get_if<RoundRecord>(&record)) {
      std::erase_if(accepted_, [&](const ContributionHeader& h) {
        return h.job == round->job && h.target.fragment == round->reached.fragment &&
               h.target.version < round->reached.version;
      });
    }
    if (const auto* back = std::get_if<RollbackRecord>(&record)) {
      std::erase_if(accepted_, [&](const ContributionHeader& h) { return h.job == back->job; });
    }
  }
  for (const Send& send : effects.sends) {
    const std::string& name = names_.at(send.connection);
    if (const auto* welcome = std::get_if<Welcome>(&send.message)) incarnations_[name] = welcome->incarnation.value;
    if (const auto* assignment = std::get_if<Assignment>(&send.message)) jobs_[name] = assignment->job;
  }
  for (const CloseConnection& close : effects.closes) {
    const std::string& name = names_.at(close.connection);
    if (connections_[name] == close.connection) connections_.erase(name);
  }
  for (const Task& task : effects.tasks) {
    if (const auto* round = std::get_if<CloseRound>(&task))
      closing_[{round->job, round->target.fragment.value}] = *round;
  }
  return Render(effects, names_);
}

Lines Story::Do(const std::string& command) {
  const Words w = Parse(command);
  const std::string verb = w.At(0);
  if (verb == "submit") return Submit(w);
  if (verb == "update") return Update(w);
  if (verb == "connect") return Connect(w);
  if (verb == "offer") return Offer(w, false);
  if (verb == "contribute") return Offer(w, true);
  if (verb == "advance") return Advance(w);
  if (verb == "restart") return Restart(w);
  if (verb == "view" || verb == "workers") return View(w);
  if (verb == "stalled") return Stalled(w);
  if (verb == "disk") return Step(DiskSpace{w.At(1) == "low"});
  Lines lines = TaskDone(w);
  if (lines == Lines{"?"}) lines = Control(w);
  if (lines == Lines{"?"}) lines = Say(w);
  if (lines == Lines{"?"}) return {"not understood: " + command};
  return lines;
}

namespace {

// Sets a number of the job file by its path, such as stop.tokens.
void SetNumber(JobSpec& spec, const std::string& path, double number) {
  bool found = false;
  ForEachNumber(spec, [&](const char* section, const auto& field, auto& value) {
    if (absl::StrCat(section, ".", field.name) != path) return;
    value = static_cast<std::remove_reference_t<decltype(value)>>(number);
    found = true;
  });
  ATOLL_CHECK(found, "a story sets a number that a job does not have");
}

}  // namespace

void Story::Change(JobSpec& spec, const Words& w) {
  for (const auto& [key, value] : w.values) {
    if (key.find('.') != std::string::npos) SetNumber(spec, key, std::stod(value));
  }
  spec.workers.min = static_cast<uint32_t>(w.Number("min", spec.workers.min));
  spec.workers.max = static_cast<uint32_t>(w.Number("max", spec.workers.max));
  spec.sync.inner_steps = static_cast<uint32_t>(w.Number("inner", spec.sync.inner_steps));
  spec.sync.overlap_steps = static_cast<uint32_t>(w.Number("overlap", spec.sync.overlap_steps));
  spec.sync.quorum = static_cast<uint32_t>(w.Number("quorum", spec.sync.quorum));
  spec.stop.inner_steps = w.Number("stop", spec.stop.inner_steps);
  if (w.Has("deadline")) spec.sync.deadline = Seconds(static_cast<int64_t>(w.Number("deadline", 0)));
  spec.stop.tokens = w.Number("tokens", spec.stop.tokens);
  spec.evaluation.every_rounds = static_cast<uint32_t>(w.Number("evaluate", spec.evaluation.every_rounds));
  if (w.Has("tasks")) {
    spec.evaluation.tasks = {{"t", {}, 20}};
    spec.evaluation.tasks_every_rounds = static_cast<uint32_t>(w.Number("tasks", 0));
  }
  spec.checkpoint.every_rounds = static_cast<uint32_t>(w.Number("save", spec.checkpoint.every_rounds));
  spec.checkpoint.keep_last = static_cast<uint32_t>(w.Number("keep", spec.checkpoint.keep_last));
  spec.checkpoint.keep_every = static_cast<uint32_t>(w.Number("keep_every", spec.checkpoint.keep_every));
  spec.workers.planned = static_cast<uint32_t>(w.Number("planned", spec.workers.planned));
  if (w.Has("init")) spec.init.checkpoint = w.values.at("init");
  if (w.Has("drop_percent")) {
    spec.experiment.drop_sync_probability = static_cast<double>(w.Number("drop_percent", 0)) / 100;
  }
  static const std::map<std::string, PoolSchedule> kPools = {{"doubling", PoolSchedule::kDoubling},
                                                             {"halving", PoolSchedule::kHalving},
                                                             {"ramp_up", PoolSchedule::kRampUp},
                                                             {"ramp_down", PoolSchedule::kRampDown}};
  if (w.Has("pool")) spec.experiment.pool = kPools.at(w.values.at("pool"));
  for (uint64_t c = 0; c < w.Number("shards", 0); ++c) {
    spec.data.pin_shards = true;
    spec.data.corpora.push_back({.name = absl::StrCat("corpus-", c), .manifest = {}, .samples = 100 * (c + 1)});
  }
  spec.screens.strikes = static_cast<uint32_t>(w.Number("strikes", spec.screens.strikes));
  if (w.Has("screen")) {
    spec.screens.norm = w.values.at("screen") == "clip" ? ScreenMode::kClip : ScreenMode::kReport;
  }
  if (w.Number("balanced", 0) != 0) spec.sync.pace = Pace::kBalanced;
  if (w.Has("priority")) spec.priority = std::stoi(w.values.at("priority"));
}

Lines Story::Submit(const Words& w) {
  JobSubmitted e;
  e.request = next_request_++;
  e.spec.name = w.At(1);
  e.spec.batch.sequences_per_step = 1;
  e.spec.data.sequence_length = 10;
  e.spec.stop.inner_steps = 1000;
  if (w.Has("tokens")) e.spec.stop.inner_steps = 0;
  e.spec.screens.norm = ScreenMode::kEnforce;
  Change(e.spec, w);
  e.fragments = static_cast<uint32_t>(w.Number("fragments", 1));
  e.stop_step = e.spec.stop.inner_steps;
  e.dataset_samples = w.Number("dataset", 1'000'000);
  e.held_out_samples = w.Number("held_out", 0);
  e.request_id = w.Has("id") ? w.values.at("id") : "";
  return Step(e);
}

Lines Story::Update(const Words& w) {
  JobUpdated e;
  e.request = next_request_++;
  e.job = JobId{w.At(1)};
  if (const auto view = core_->ViewJob(e.job, now_)) e.spec = view->record.spec;
  Change(e.spec, w);
  e.stop_step = e.spec.stop.inner_steps;
  e.expected_revision = w.Number("revision", 0);
  return Step(e);
}

Lines Story::Connect(const Words& w) {
  const std::string name = w.At(1);
  Hello hello;
  hello.worker = WorkerId{name};
  hello.start_nonce = nonces_[name] = w.Number("nonce", nonces_.contains(name) ? nonces_[name] : 7);
  hello.incarnation = Incarnation{w.Number("incarnation", 0)};
  hello.last_boot = BootNumber{w.Number("boot", hello.incarnation.value == 0 ? 0 : boot_)};
  hello.protocol_revision = static_cast<uint32_t>(w.Number("protocol", kProtocolRevision));
  hello.arithmetic_revision = static_cast<uint32_t>(w.Number("arithmetic", kArithmeticRevision));
  hello.evaluate_only = w.Number("evaluate_only", 0) != 0;
  if (w.Has("job")) hello.job = JobId{w.values.at("job")};
  if (w.Has("leases")) hello.leases = Cursors(w.values.at("leases"));
  if (w.Has("held")) {
    const auto pair = Split(w.values.at("held"), ':');
    hello.held.push_back({Target(pair.at(0)), Digest{0, std::stoull(pair.at(1))}});
  }
  const ConnectionId connection = next_connection_++;
  names_[connection] = name;
  Lines lines = Take(core_->Step(WorkerConnected{connection, hello}, now_));
  const std::string closed = absl::StrCat("close c", connection);
  if (std::find(lines.begin(), lines.end(), closed) == lines.end()) connections_[name] = connection;
  return lines;
}

ContributionHeader Story::Header(const Words& w) {
  ContributionHeader h;
  h.worker = WorkerId{w.At(1)};
  h.job = w.Has("job") ? JobId{w.values.at("job")} : jobs_[w.At(1)];
  h.incarnation = Incarnation{w.Number("incarnation", incarnations_[w.At(1)])};
  h.target = Target(w.At(2));
  h.digest = {0, w.Number("digest", 100 + h.target.version.value)};
  h.encoded_bytes = 400;
  h.codec = w.Has("codec") ? static_cast<CodecKind>(w.Number("codec", 0)) : CodecKind::kFp32;
  if (w.Has("cursors")) h.cursors = Cursors(w.values.at("cursors"));
  h.steps = w.Number("steps", std::max<uint64_t>(1, claims_.Samples(h)));
  h.tokens = w.Number("tokens", 10 * h.steps);  // by default as many as the steps have
  h.send_step = w.Number("step", 0);
  return h;
}

Lines Story::Offer(const Words& w, bool whole) {
  const UploadId upload = next_upload_++;
  uploads_[upload] = Header(w);
  Lines lines = Step(UploadOffered{upload, {uploads_[upload], BootNumber{w.Number("boot", boot_)}}});
  const std::string granted = absl::StrCat("upload u", upload, " granted");
  if (!whole || std::find(lines.begin(), lines.end(), granted) == lines.end()) return lines;
  Append(lines, Step(UploadFinished{upload}));
  accepted_.push_back(uploads_[upload]);
  claims_.Accepted(uploads_[upload]);
  Append(lines, Step(ContributionDurable{upload}));
  return lines;
}

Lines Story::Control(const Words& w) {
  static const std::map<std::string, JobAction> kActions = {{"cancel", JobAction::kCancel},
                                                            {"cancel-drain", JobAction::kCancelWithDrain},
                                                            {"pause", JobAction::kPause},
                                                            {"resume", JobAction::kResume}};
  const auto action = kActions.find(w.At(0));
  if (action != kActions.end()) return Step(JobControlled{next_request_++, JobId{w.At(1)}, action->second, 0});
  if (w.At(0) == "rollback") return Step(JobRolledBack{next_request_++, JobId{w.At(1)}, std::stoull(w.At(2)), 0});
  if (w.At(0) == "delete") return Step(CheckpointUnwanted{next_request_++, JobId{w.At(1)}, std::stoull(w.At(2))});
  if (w.At(0) == "purge") return Step(JobUnwanted{next_request_++, JobId{w.At(1)}});
  if (w.At(0) == "readmit") return Step(WorkerSteered{next_request_++, WorkerId{w.At(1)}, WorkerAction::kReadmit});
  if (w.At(0) == "cordon") return Step(WorkerSteered{next_request_++, WorkerId{w.At(1)}, WorkerAction::kCordon});
  if (w.At(0) == "evict") return Step(WorkerSteered{next_request_++, WorkerId{w.At(1)}, WorkerAction::kEvict});
  if (w.At(0) == "drain") return Step(WorkerSteered{next_request_++, WorkerId{w.At(1)}, WorkerAction::kDrain});
  return {"?"};
}

Lines Story::TaskDone(const Words& w) {
  const std::string verb = w.At(0);
  const JobId job{w.At(1)};
  if (verb == "parameters") {
    ParametersReady e{job, {}};
    e.traffic = {w.Number("up", 0), w.Number("down", 0), w.Number("largest_up", 0), w.Number("largest_down", 0)};
    const auto view = core_->ViewJob(job, now_);
    for (uint32_t p = 0; p < view->fragments.size(); ++p) {
      const Digest known = view->fragments[p].hash;
      const bool other = p == w.Number("other", view->fragments.size());
      e.hashes.push_back(other ? HashOf(p, 9, 9) : known.IsZero() ? HashOf(p, 0, 0) : known);
    }
    return Step(e);
  }
  if (verb == "broken") return Step(TaskFailed{job, w.Rest(2)});
  if (verb == "delayed") return Step(PreparationDelayed{job, w.Rest(2)});
  if (verb == "checkpoint-delayed") return Step(CheckpointDelayed{job, std::stoull(w.At(2)), w.Rest(3)});
  if (verb == "checked") {
    const std::string damage = w.Rest(3);
    return Step(
        CheckpointChecked{job, std::stoull(w.At(2)), damage.empty() ? absl::OkStatus() : absl::DataLossError(damage)});
  }
  if (verb == "checkpointed") {
    CheckpointWritten e{job, std::stoull(w.At(2)), {}, 0};
    const auto view = core_->ViewJob(job, now_);
    for (const FragmentView& f : view->fragments) e.hashes.push_back(f.hash);
    return Step(e);
  }
  if (verb == "finish") return Step(UploadFinished{std::stoull(w.At(1))});
  if (verb == "broken-upload") return Step(UploadBroken{std::stoull(w.At(1))});
  if (verb == "durable") {
    accepted_.push_back(uploads_.at(std::stoull(w.At(1))));
    claims_.Accepted(accepted_.back());
    return Step(ContributionDurable{std::stoull(w.At(1))});
  }
  if (verb != "aggregated" && verb != "screened") return {"?"};
  const auto fragment = static_cast<uint32_t>(std::stoul(w.At(2)));
  if (!closing_.contains({job, fragment})) return {"no round of the fragment is closing"};
  const CloseRound task = closing_.at({job, fragment});
  if (verb == "screened") {
    const bool far = w.Number("far", 0) != 0;
    return Step(ContributionsScreened{job, task.epoch, task.target, {{WorkerId{w.At(3)}, w.Rest(4), far}}});
  }
  RoundAggregated e{job, task.epoch, {task.target.fragment, Version{task.target.version.value + 1}}, {}};
  for (const ContributionHeader& h : task.contributions) e.record.contributions.push_back({h, 0, 1});
  e.record.spec_revision = task.spec_revision;
  e.record.clock_step = task.clock_step;
  e.record.hash = HashOf(fragment, task.epoch, task.target.version.value + 1);
  e.record.update_bytes = 400;
  for (const char* key : {"clipped", "remarked"}) {
    if (w.Has(key)) e.remarks.push_back({WorkerId{w.values.at(key)}, "its norm is large", key[0] == 'c'});
  }
  return Step(e);
}

Lines Story::Say(const Words& w) {
  const std::string verb = w.At(0), name = w.At(1);
  if (verb == "revoke") return Step(WorkerRevoked{WorkerId{name}});
  if (verb == "disconnect") {
    const ConnectionId gone = connections_.at(name);
    connections_.erase(name);
    return Step(ConnectionClosed{gone});
  }
  WorkerMessage message;
  const JobId job = w.Has("job") ? JobId{w.values.at("job")} : jobs_[name];
  if (verb == "ready") {
    Ready ready{job, w.Number("step", 0), {}};
    for (const std::string& at : Split(w.Has("applied") ? w.values.at("applied") : "", ','))
      ready.applied.push_back(Target(at));
    message = std::move(ready);
  } else if (verb == "heartbeat") {
    Heartbeat h;
    h.sequence = ++heartbeats_;
    h.job = job;
    h.step = w.Number("step", 0);
    h.step_ns = static_cast<int64_t>(w.Number("step_ms", 0)) * 1'000'000;
    h.period_steps = static_cast<uint32_t>(w.Number("period", 0));
    h.upload_bytes_per_second = w.Number("up", 0);
    h.download_bytes_per_second = w.Number("down", 0);
    h.activity = w.Number("waiting", 0) != 0      ? WorkerActivity::kWaiting
                 : w.Number("evaluating", 0) != 0 ? WorkerActivity::kEvaluating
                                                  : WorkerActivity::kTraining;
    if (w.Has("for")) h.waiting_for = w.values.at("for");
    message = h;
  } else if (verb == "drop") {
    message = SyncDropped{job, Target(w.At(2)), w.Number("step", 0)};
  } else if (verb == "lease") {
    message = LeaseRequest{job, w.Number("request", 1), w.Number("samples", 100)};
  } else if (verb == "evaluated") {
    EvaluationDone done{job, std::stoull(w.At(2)), static_cast<int64_t>(w.Number("nll", 5'000'000)),
                        w.Number("tokens", 10), 30};
    if (w.Number("scored", 0) != 0) done.tasks = {{"t", 20, 5, {}}};
    message = done;
  } else if (verb == "evaluation-failed") {
    message = EvaluationDone{.job = job, .evaluation = std::stoull(w.At(2)), .failure = w.Rest(3)};
  } else if (verb == "return") {
    message = LeaseReturn{job, Cursors(w.At(2))};
  } else if (verb == "leave") {
    message = Leaving{w.Rest(2)};
  } else if (verb == "fail" || verb == "fail-for-all") {
    message = JobFailure{job, w.Rest(2), verb == "fail-for-all"};
  } else if (verb == "deviant" || verb == "applied") {
    message = Applied{job, Target(w.At(2)), verb == "applied"};
  } else {
    return {"?"};
  }
  return Step(WorkerSaid{connections_.at(name), message});
}

// "1500ms" or "91s".
Duration TimeOf(const std::string& text) {
  const bool millis = text.size() > 2 && text.substr(text.size() - 2) == "ms";
  const int64_t amount = std::stoll(text);
  return millis ? Milliseconds(amount) : Seconds(amount);
}

Lines Story::Stalled(const Words& w) {
  const Duration time = TimeOf(w.At(1));
  now_ = now_ + time;
  return Step(CoordinatorStalled{time});
}

// Advances in pieces: to every wake of the core, and to every heartbeat of the workers named in alive=.
Lines Story::Advance(const Words& w) {
  const Instant end = now_ + TimeOf(w.At(1));
  const std::vector<std::string> alive = w.Has("alive") ? Split(w.values.at("alive"), ',') : std::vector<std::string>{};
  Lines lines;
  Instant beat = now_ + Seconds(2);
  while (true) {
    const Instant next = std::min({end, core_->NextWake(), alive.empty() ? kNever : beat});
    now_ = std::max(now_, next);
    Lines more = Step(Tick{});
    if (!more.empty()) lines.push_back(absl::StrCat("at ", (now_.ns / 1'000'000) % 1'000'000, " ms"));
    Append(lines, std::move(more));
    if (now_ >= beat && !alive.empty()) {
      beat = now_ + Seconds(2);
      for (const std::string& name : alive) {
        for (const WorkerView& view : core_->ViewWorkers(now_)) {
          if (view.worker.value != name) continue;
          Heartbeat h = view.last;
          h.sequence = ++heartbeats_;
          h.job = view.job;
          Append(lines, Step(WorkerSaid{connections_.at(name), h}));
        }
      }
    }
    if (now_ >= end) return lines;
  }
}

Lines Story::Restart(const Words& w) {
  boot_ = w.Number("boot", boot_ + 1);
  RecoveredState state = ledger_.State(BootNumber{boot_});
  for (RecoveredJob& job : state.jobs) {
    for (const ContributionHeader& h : accepted_) {
      if (h.job == job.job.job) job.accepted.push_back(h);
    }
  }
  connections_.clear();
  closing_.clear();
  core_ = std::make_unique<Core>(options_, std::move(state), now_);
  return Take(core_->Start(now_));
}

Lines Story::View(const Words& w) {
  if (w.At(0) == "view") return Render(*core_->ViewJob(JobId{w.At(1)}, now_));
  Lines lines;
  for (const WorkerView& view : core_->ViewWorkers(now_)) lines.push_back(Render(view));
  return lines;
}

}  // namespace atl
