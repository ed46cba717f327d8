// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/coordinator/core/world.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace atl {
namespace {

const char* const kNames[] = {"a", "b", "c", "d"};

Digest HashOf(uint64_t fragment, uint64_t epoch, uint64_t version) { return {epoch * 1000 + fragment + 1, version}; }

}  // namespace

World::World(uint64_t seed) : rng_(StreamKey(seed, "coordinator core")) {
  core_ = std::make_unique<Core>(options_, ledger_.State(BootNumber{boot_}), now_);
  Take(core_->Start(now_));
  for (const char* name : kNames) workers_[name];
  Submit();
}

void World::Give(const Event& event) {
  Take(core_->Step(event, now_));
  const bool due = core_->NextWake() <= now_;
  ATOLL_CHECK(due || core_->Step(Tick{}, now_).count() == 0, "the core is not at rest after a step");
}

void World::Take(const Effects& effects) {
  core_->CheckInvariants();
  ledger_.Apply(effects.records);
  for (const LedgerRecord& record : effects.records) {
    honest_claims_.Hear(record);
    if (const auto* lease = std::get_if<LeaseRecord>(&record)) leases_[lease->lease] = *lease;
    if (const auto* closed = std::get_if<LeaseClosed>(&record)) leases_.erase(closed->lease);
    if (const auto* round = std::get_if<RoundRecord>(&record)) {
      ++rounds_;
      for (const CommittedContribution& c : round->contributions) {
        for (const LeaseCursor& cursor : c.header.cursors) MergeSamples(*round, c.header, cursor);
      }
      std::pair<uint64_t, uint64_t>& newest = newest_[{round->job, round->reached.fragment.value}];
      ATOLL_CHECK(std::pair(round->epoch, round->reached.version.value) > newest, "I6: a version came twice");
      newest = {round->epoch, round->reached.version.value};
      std::erase_if(accepted_, [&](const ContributionHeader& h) {
        return h.job == round->job && h.target.fragment == round->reached.fragment &&
               h.target.version < round->reached.version;
      });
    }
    if (const auto* back = std::get_if<RollbackRecord>(&record)) {
      std::erase_if(accepted_, [&](const ContributionHeader& h) { return h.job == back->job; });
    }
    if (const auto* job = std::get_if<JobRecord>(&record); job != nullptr && HasEnded(job->state)) {
      std::erase_if(accepted_, [&](const ContributionHeader& h) { return h.job == job->job; });
    }
  }
  for (const Send& send : effects.sends) {
    Worker& worker = workers_.at(names_.at(send.connection));
    if (worker.connection == send.connection) Hear(worker, send.message);
  }
  for (const CloseConnection& close : effects.closes) {
    if (auto& held = workers_.at(names_.at(close.connection)).connection; held == close.connection) held.reset();
  }
  for (const UploadVerdict& v : effects.verdicts) {
    if (v.decision != UploadDecision::kGranted) uploads_.erase(v.upload);
  }
  for (const Task& task : effects.tasks) {
    const auto* flush = std::get_if<FlushAcceptance>(&task);
    if (flush != nullptr) {
      uploads_.at(flush->upload).flushing = true;
    } else {
      tasks_.push_back(task);
    }
  }
}

void World::Accept(const ContributionHeader& header) {
  accepted_.push_back(header);
  honest_claims_.Accepted(header);
  for (const LeaseCursor& cursor : header.cursors) {
    // Workers here also claim samples of closed leases and of other jobs' leases, which must not
    // count.
    const auto lease = leases_.find(cursor.lease);
    const bool counts = lease != leases_.end() && lease->second.job == header.job;
    const Claim claim{header.job, header.worker, header.target, cursor};
    if (counts)
      claimed_[claim] = lease->second.range.begin;
    else
      claimed_.erase(claim);
  }
}

void World::MergeSamples(const RoundRecord& round, const ContributionHeader& header, const LeaseCursor& cursor) {
  const auto claim = claimed_.find({header.job, header.worker, header.target, cursor});
  if (claim == claimed_.end() || claim->second >= cursor.cursor) return;
  auto& merged = merged_[{round.job, round.epoch}];
  const auto mine = merged.try_emplace(claim->second, 0).first;
  mine->second = std::max(mine->second, cursor.cursor);
  const bool over_next = std::next(mine) != merged.end() && std::next(mine)->first < mine->second;
  const bool over_before = mine != merged.begin() && std::prev(mine)->second > mine->first;
  ATOLL_CHECK(!over_next && !over_before, "I9: a sample was merged under two leases");
}

void World::Hear(Worker& worker, const CoordinatorMessage& message) {
  if (const auto* m = std::get_if<Welcome>(&message)) {
    worker.incarnation = m->incarnation;
    if (!m->resumed) worker.leases.clear(), worker.job = {};
  } else if (const auto* assigned = std::get_if<Assignment>(&message)) {
    worker.job = assigned->job;
    worker.step = std::max(worker.step, assigned->clock_step);
    worker.stop = 0;
    worker.said_done = false;
  } else if (std::get_if<Unassign>(&message) != nullptr) {
    worker.leases.clear();
    worker.job = {};
    worker.stop = 0;
    worker.evaluation.reset();
  } else if (const auto* granted = std::get_if<LeaseGranted>(&message)) {
    worker.leases[granted->lease] = granted->range;
  } else if (const auto* revoked = std::get_if<LeaseRevoked>(&message)) {
    for (const LeaseId id : revoked->leases) worker.leases.erase(id);
  } else if (const auto* closing = std::get_if<ClosingStarted>(&message)) {
    worker.stop = closing->stop_step;
  } else if (const auto* evaluate = std::get_if<EvaluationAssigned>(&message)) {
    worker.evaluation = evaluate->evaluation;
  }
}

void World::Chaos() {
  switch (rng_.Below(24)) {
    case 0: ConnectSomeone(); break;
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
    case 6:
    case 7: SaySomething(); break;
    case 8:
    case 9:
    case 10:
    case 11: OfferSomething(); break;
    case 12:
    case 13:
    case 14:
    case 15: MoveAnUpload(); break;
    case 16:
    case 17:
    case 18:
    case 19: FinishATask(); break;
    case 20: AskSomething(); break;
    case 21:
    case 22: {
      const Duration passes = Milliseconds(static_cast<int64_t>(rng_.Below(Chance(8) ? 60'000 : 1'500)));
      now_ = now_ + passes;
      const bool stalled = passes > Seconds(5) && now_.ns / 1'000'000 % 2 == 0;
      Give(stalled ? Event{CoordinatorStalled{passes}} : Event{Tick{}});
      break;
    }
    case 23:
      if (Chance(8)) Restart(Chance(4));
      break;
  }
}

void World::ConnectSomeone() {
  const std::string name = kNames[rng_.Below(4)];
  Worker& worker = workers_[name];
  if (Chance(6)) {
    worker.nonce = rng_();
    worker.leases.clear();
    worker.job = {};
    worker.incarnation = {};
  }
  Hello hello;
  hello.worker = WorkerId{name};
  hello.start_nonce = worker.nonce;
  hello.incarnation = worker.incarnation;
  hello.evaluate_only = name == "d" && Chance(3);
  hello.job = worker.job;
  for (const auto& [id, range] : worker.leases)
    hello.leases.push_back({id, range.begin + rng_.Below(range.size() + 1)});
  if (Chance(3))
    hello.held.push_back({{FragmentIndex{static_cast<uint32_t>(rng_.Below(4))}, Version{rng_.Below(5)}}, Digest{0, 1}});
  const ConnectionId connection = next_++;
  names_[connection] = name;
  // A refused connection is closed in the same step; then the worker keeps its current stream.
  const auto before = worker.connection;
  worker.connection = connection;
  Give(WorkerConnected{connection, hello});
  if (!worker.connection) worker.connection = before;
}

void World::SaySomething() {
  const std::string name = kNames[rng_.Below(4)];
  Worker& worker = workers_[name];
  if (!worker.connection) return ConnectSomeone();
  const ConnectionId c = *worker.connection;
  const JobId job = Chance(20) ? JobId{"nowhere"} : worker.job;
  const auto cursors = [&] {
    std::vector<LeaseCursor> out;
    for (const auto& [id, range] : worker.leases) out.push_back({id, range.begin + rng_.Below(range.size() + 1)});
    return out;
  };
  switch (rng_.Below(16)) {
    case 0:
    case 1:
    case 2:
    case 3: {
      worker.step += rng_.Below(12);
      Heartbeat h;
      h.job = job;
      h.step = worker.step;
      h.step_ns = static_cast<int64_t>(rng_.Below(2'000'000'000));
      h.activity = Chance(3) ? WorkerActivity::kWaiting : WorkerActivity::kTraining;
      return Give(WorkerSaid{c, h});
    }
    case 4:
    case 5:
    case 6: return Give(WorkerSaid{c, LeaseRequest{job, worker.request += rng_.Below(2), rng_.Below(60)}});
    case 7:
    case 8:
    case 9:
    case 10: return Give(WorkerSaid{c, Ready{job, worker.step, {}}});
    case 11: return Give(WorkerSaid{c, EvaluationDone{job, worker.evaluation.value_or(rng_.Below(3)), 1, 1, 1}});
    case 12:
      if (Chance(3)) return Give(WorkerSaid{c, LeaseReturn{job, cursors()}});
      return Give(WorkerSaid{c, Applied{job, {FragmentIndex{0}, Version{rng_.Below(4)}}, Chance(2)}});
    case 13:
      if (!Chance(6)) return;
      return Give(WorkerSaid{c, JobFailure{job, Chance(2) ? "loss was not finite" : "out of memory", Chance(20)}});
    case 14:
      if (Chance(4)) return Give(WorkerSaid{c, Leaving{"it wants to"}});
      return;
    default:
      if (!Chance(3)) return;
      worker.connection.reset();
      return Give(ConnectionClosed{c});
  }
}

void World::Offer(const std::string& name, Worker& worker, const JobId& job, FragmentVersion target, bool honest) {
  UploadOffered e;
  ContributionHeader& header = e.contribution.header;
  e.upload = next_++;
  e.contribution.boot = BootNumber{honest || !Chance(40) ? boot_ : boot_ + 1};
  header.job = job;
  header.worker = WorkerId{name};
  header.incarnation = honest || !Chance(20) ? worker.incarnation : Incarnation{rng_.Below(9)};
  header.target = target;
  header.digest = {0, honest ? next_ : rng_.Below(3)};
  header.encoded_bytes = 100;
  header.send_step = std::max(worker.step, worker.stop);
  for (const auto& [id, range] : worker.leases)
    header.cursors.push_back({id, honest || Chance(2) ? range.end : range.begin + rng_.Below(range.size() + 1)});
  if (!honest && Chance(10)) header.cursors.push_back({LeaseId{rng_.Below(40)}, rng_.Below(400)});
  const bool claims_more = !honest && Chance(10);
  header.steps = honest_claims_.Samples(header) + (claims_more ? 1 + rng_.Below(100) : 0);
  header.tokens = 10 * header.steps - (honest || header.steps == 0 ? 0 : rng_.Below(10));
  uploads_[e.upload] = {header};
  Give(e);
}

void World::OfferSomething() {
  const std::string name = kNames[rng_.Below(4)];
  Worker& worker = workers_[name];
  const auto view = core_->ViewJob(worker.job, now_);
  if (!view) return;
  // There are samples to claim.
  if (worker.connection)
    Give(WorkerSaid{*worker.connection, LeaseRequest{worker.job, ++worker.request, 1 + rng_.Below(60)}});
  const auto fragment = static_cast<uint32_t>(rng_.Below(view->fragments.size()));
  const uint64_t version = view->fragments[fragment].version.value;
  Offer(name, worker, worker.job, {FragmentIndex{fragment}, Version{Chance(10) ? rng_.Below(4) : version}}, false);
}

void World::MoveAnUpload() {
  if (uploads_.empty()) return;
  auto it = uploads_.begin();
  std::advance(it, static_cast<std::ptrdiff_t>(rng_.Below(uploads_.size())));
  const UploadId id = it->first;
  if (it->second.flushing) {
    Accept(it->second.header);
    Give(ContributionDurable{id});
    uploads_.erase(id);
  } else if (Chance(8)) {
    uploads_.erase(it);
    Give(UploadBroken{id});
  } else {
    Give(UploadFinished{id});
  }
}

void World::FinishATask() {
  if (!tasks_.empty()) Finish(rng_.Below(tasks_.size()), true);
}

// The job's earlier tasks end when its parameters are loaded again.
bool World::FailTask(const Task& failed) {
  const auto job_of = [](const Task& task) {
    return std::visit(
        [](const auto& t) {
          if constexpr (requires { t.job; }) return t.job;
          return JobId{};
        },
        task);
  };
  const JobId job = job_of(failed);
  const auto view = core_->ViewJob(job, now_);
  if (!view.has_value() || view->rounds_committed == 0 || std::holds_alternative<CheckCheckpoint>(failed)) return false;
  std::erase_if(
      tasks_, [&](const Task& task) { return job_of(task) == job && !std::holds_alternative<CheckCheckpoint>(task); });
  Give(TaskFailed{job, "a file cannot be read"});
  return true;
}

bool World::Finish(size_t index, bool may_screen) {
  const Task task = tasks_[index];
  tasks_.erase(tasks_.begin() + static_cast<std::ptrdiff_t>(index));
  const auto hashes = [&](const JobId& job) {
    std::vector<Digest> out;
    const auto view = core_->ViewJob(job, now_);
    for (const FragmentView& f : view->fragments) {
      out.push_back(f.hash.IsZero() ? HashOf(out.size(), 0, 0) : f.hash);
    }
    return out;
  };
  if (may_screen && Chance(30) && FailTask(task)) return true;
  if (const auto* t = std::get_if<PrepareParameters>(&task)) Give(ParametersReady{t->job, hashes(t->job)});
  if (const auto* t = std::get_if<CheckCheckpoint>(&task)) Give(CheckpointChecked{t->job, t->step, {}});
  if (const auto* t = std::get_if<RestoreCheckpoint>(&task)) Give(ParametersReady{t->job, hashes(t->job)});
  if (const auto* t = std::get_if<WriteCheckpoint>(&task)) {
    CheckpointWritten e{t->job, t->step, {}, 0};
    for (const Version v : t->versions) e.hashes.push_back(HashOf(e.hashes.size(), 9, v.value));
    Give(e);
  }
  const auto* t = std::get_if<CloseRound>(&task);
  if (t == nullptr) return true;
  if (may_screen && Chance(6)) {
    ContributionsScreened e{t->job, t->epoch, t->target, {}};
    for (const ContributionHeader& h : t->contributions) {
      if (Chance(2)) e.refused.push_back({h.worker, "not finite", Chance(8)});
    }
    for (const ScreenedOut& out : e.refused) {
      std::erase_if(accepted_, [&, w = out.worker](const ContributionHeader& h) {
        return h.job == t->job && h.target == t->target && h.worker == w;
      });
    }
    Give(e);
    return true;
  }
  RoundAggregated e{t->job, t->epoch, {t->target.fragment, Version{t->target.version.value + 1}}, {}};
  for (const ContributionHeader& h : t->contributions) {
    e.record.contributions.push_back({h, 0, 1});
    if (may_screen && Chance(12)) e.remarks.push_back({h.worker, "large", Chance(2)});
  }
  e.record.clock_step = t->clock_step;
  // The content hash of a checkpoint and of a round at the same version must agree, or a restart
  // would refuse the job.
  e.record.hash = HashOf(t->target.fragment.value, 9, t->target.version.value + 1);
  Give(e);
  return true;
}

void World::Submit() {
  JobSubmitted e;
  e.request = next_++;
  e.spec.name = absl::StrCat("j", ++jobs_);
  e.spec.batch.sequences_per_step = 1;
  e.spec.screens.norm = ScreenMode::kEnforce;
  e.spec.data.sequence_length = 10;
  e.spec.sync.inner_steps = static_cast<uint32_t>(5 + rng_.Below(20));
  e.spec.sync.overlap_steps = static_cast<uint32_t>(rng_.Below(4));
  e.spec.workers.min = static_cast<uint32_t>(1 + rng_.Below(2));
  e.spec.workers.max = static_cast<uint32_t>(2 + rng_.Below(3));
  e.spec.priority = static_cast<int32_t>(rng_.Below(3));
  e.spec.stop.inner_steps = 40 + rng_.Below(100);
  if (Chance(4)) e.spec.stop.tokens = 500 + rng_.Below(3000);
  e.spec.evaluation.every_rounds = static_cast<uint32_t>(rng_.Below(3));
  e.spec.checkpoint.every_rounds = static_cast<uint32_t>(rng_.Below(3));
  e.spec.checkpoint.keep_last = static_cast<uint32_t>(1 + rng_.Below(3));
  e.stop_step = e.spec.stop.inner_steps;
  e.fragments = static_cast<uint32_t>(1 + rng_.Below(3));
  e.dataset_samples = Chance(5) ? UINT64_MAX : 100 + rng_.Below(1000);
  e.held_out_samples = rng_.Below(2) * 20;
  Give(e);
}

void World::AskSomething() {
  const JobId job{absl::StrCat("j", 1 + rng_.Below(jobs_))};
  switch (rng_.Below(8)) {
    case 0:
      if (jobs_ < 3) Submit();
      return;
    case 1: return Give(JobControlled{next_++, job, JobAction::kPause, 0});
    case 2:
    case 3: return Give(JobControlled{next_++, job, JobAction::kResume, 0});
    case 4: {
      const auto view = core_->ViewJob(job, now_);
      if (view->checkpoints.empty()) return;
      const uint64_t step = view->checkpoints[rng_.Below(view->checkpoints.size())].step;
      if (Chance(3)) return Give(CheckpointUnwanted{next_++, job, step});
      return Give(JobRolledBack{next_++, job, step, 0});
    }
    case 5: {
      JobUpdated e{next_++, job, core_->ViewJob(job, now_)->record.spec, 0, 0};
      e.spec.workers.max = static_cast<uint32_t>(2 + rng_.Below(3));
      e.stop_step = e.spec.stop.inner_steps;
      return Give(e);
    }
    case 6:
      return Give(WorkerSteered{next_++, WorkerId{kNames[rng_.Below(4)]}, static_cast<WorkerAction>(rng_.Below(4))});
    default:
      if (Chance(6)) return Give(JobUnwanted{next_++, job});
      if (Chance(6))
        return Give(JobControlled{next_++, job, Chance(2) ? JobAction::kCancel : JobAction::kCancelWithDrain, 0});
      return Give(DiskSpace{Chance(4)});
  }
}

std::vector<std::string> World::Calm(int seconds) {
  if (!damaged_.empty()) Restart(false);
  Give(DiskSpace{false});
  for (auto& [name, worker] : workers_) {
    if (worker.connection) Give(ConnectionClosed{*worker.connection});
    worker = Worker{.nonce = rng_() | 1};
  }
  for (const char* name : kNames) Give(WorkerSteered{next_++, WorkerId{name}, WorkerAction::kReadmit});
  for (uint64_t j = 1; j <= jobs_; ++j)
    Give(JobControlled{next_++, JobId{absl::StrCat("j", j)}, JobAction::kResume, 0});
  for (int second = 0; second < seconds; ++second) {
    now_ = now_ + Seconds(1);
    Give(Tick{});
    for (auto& [name, worker] : workers_) CalmWorker(name, worker);
    while (!uploads_.empty() || !tasks_.empty()) {
      if (!uploads_.empty()) MoveAnUpload();
      if (!tasks_.empty()) Finish(0, false);
    }
  }
  std::vector<std::string> open;
  for (const JobId& job : core_->Jobs()) {
    const JobView view = *core_->ViewJob(job, now_);
    if (!HasEnded(view.record.state))
      open.push_back(absl::StrCat(Durable(view), " clock ", view.clock_step, " waiting: ", view.waiting_line));
  }
  return open;
}

uint64_t World::Succeeded() const {
  uint64_t count = 0;
  for (const JobId& job : core_->Jobs())
    count += core_->ViewJob(job, now_)->record.state == JobState::kSucceeded ? 1 : 0;
  return count;
}

void World::CalmWorker(const std::string& name, Worker& worker) {
  if (!worker.connection) {
    const ConnectionId connection = next_++;
    names_[connection] = name;
    worker.connection = connection;
    Hello hello;
    hello.worker = WorkerId{name};
    hello.start_nonce = worker.nonce;
    return Give(WorkerConnected{connection, hello});
  }
  const auto say = [&](WorkerMessage m) {
    if (worker.connection) Give(WorkerSaid{*worker.connection, std::move(m)});
  };
  worker.step += worker.stop == 0 ? 3 : 0;
  say(Heartbeat{.job = worker.job, .activity = WorkerActivity::kWaiting, .step = worker.step, .step_ns = 300'000'000});
  const JobId job = worker.job;
  if (job.value.empty()) return;
  if (!worker.said_done) say(Ready{job, worker.step, {}});
  if (worker.evaluation) say(EvaluationDone{job, *std::exchange(worker.evaluation, std::nullopt), 1, 1, 1});
  if (worker.job != job) return;
  say(LeaseRequest{job, ++worker.request, 20});
  const auto view = core_->ViewJob(job, now_);
  for (uint32_t p = 0; p < view->fragments.size() && worker.job == job && !worker.said_done; ++p) {
    Offer(name, worker, job, {FragmentIndex{p}, core_->ViewJob(job, now_)->fragments[p].version}, true);
  }
  if (worker.job == job && worker.stop > 0) {
    worker.said_done = true;
    say(Ready{job, worker.stop, {}});
  }
}

}  // namespace atl
