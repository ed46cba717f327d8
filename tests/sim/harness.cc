// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/harness.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/plan/job_validation.h"
#include "coordinator/engine/last_snapshots.h"
#include "coordinator/store/rounds_at_start.h"
#include "tests/sim/machine_clock.h"
#include "tests/sim/rerouting_bulk.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/slow_bulk.h"
#include "tests/support/memory_bulk.h"
#include "tests/support/memory_stream.h"

namespace atl {
JobSpec SmallJob(const std::string& name) {
  JobSpec spec;
  spec.name = name;
  spec.model = {.vocab_size = 64, .hidden_size = 16, .layers = 4, .heads = 2};
  spec.data.corpora = {{.name = "toy", .manifest = Sha256Of(AsBytes(std::string("toy"))), .weight = 1}};
  spec.data.sequence_length = 16;
  spec.batch.sequences_per_step = 4;
  spec.inner.learning_rate = 0.05;
  spec.sync.inner_steps = 10;
  spec.workers = {.min = 1, .max = 8, .planned = 2};
  spec.stop.inner_steps = 60;
  spec.screens.norm = ScreenMode::kEnforce;
  (void)ResolveDefaults(spec, 64);
  return spec;
}

// One life of a worker.
struct Harness::Worker {
  // `step` 0: uses the steps of the harness' factory, during which all other workers wait.
  Worker(Harness& h, const std::string& name, uint64_t nonce, Duration step = {})
      : clock(h.clock_),
        factory(
            h.factory_, [this](Duration d) { clock.Spend(d); }, step),
        rerouting(h.acknowledged_),
        bulk(MakeMemoryBulkClient(rerouting, h.executor_,
                                  {.frame_bytes = 4096, .cut = [this] { return rerouting.cut(); }})),
        slow(*bulk, h.clock_),
        link(
            {.worker = WorkerId{name}, .seed = h.seed_ * 1000 + nonce}, [this, &h] { return Open(h); }, slow, h.clock_,
            h.log_,
            [this](LinkEvent event) {
              heard = true;
              session.Post(std::move(event));
            },
            {}),
        session({.core = {.worker = WorkerId{name}, .program_version = "test", .start_nonce = nonce, .device = "cpu"},
                 .sample_wait = {}},
                link, step.ns > 0 ? factory : h.factory_, h.executor_, clock, h.log_, {}) {}

  std::unique_ptr<WorkerEnd> Open(Harness& h) {
    ControlStreamPair pair = MakeControlStreamPair(h.executor_);
    break_connection = pair.break_connection;
    if (h.coordinator_ != nullptr) {
      h.coordinator_->controls.Accept(std::move(pair.coordinator), "memory");
    }  // without a coordinator its end is dropped and the stream ends
    return std::move(pair.worker);
  }

  MachineClock clock;
  ToyJobFactory factory;
  bool heard = false;  // the session received an event since its last turn
  ReroutingBulk rerouting;
  std::function<void()> break_connection = [] {};
  std::unique_ptr<BulkClient> bulk;
  SlowBulk slow;
  NetworkLink link;
  Session session;
};

Harness::Harness(uint64_t seed, bool sqlite) : seed_(seed), sqlite_(sqlite) {}

Harness::~Harness() {
  for (auto& [name, worker] : workers_) worker->break_connection();
  executor_.RunAll();
  workers_.clear();
  if (coordinator_ != nullptr) KillCoordinator();
}

std::unique_ptr<Ledger> Harness::OpenLedger() {
  if (!sqlite_) return MakeMemoryLedger(ledger_disk_, [this] { return files_.Meet("commit", "ledger"); });
  const bool met_before = files_.met();
  auto ledger = sqlite_files_.OpenLedger(DataDirectory(kRoot).LedgerPath());
  ATOLL_CHECK(ledger.ok() || files_.dead() || (files_.met() && !met_before),
              "a ledger that was left by a fault is refused");
  return ledger.ok() ? *std::move(ledger) : nullptr;
}

void Harness::StartCoordinator() {
  ATOLL_CHECK(coordinator_ == nullptr, "one coordinator at a time");
  const bool met_before = files_.met();
  const auto died = [this] {
    if (files_.dead()) files_.Survive(seed_ + ++nonce_);
  };
  std::unique_ptr<Ledger> ledger = OpenLedger();
  if (ledger == nullptr) return died();
  const absl::Status names = SyncNames(files_, DataDirectory(kRoot));
  if (!names.ok() && !files_.dead() && files_.met()) return;
  absl::StatusOr<RecoveredState> read = ledger->Recover();
  ATOLL_CHECK(read.ok() || files_.dead() || (files_.met() && !met_before),
              "a ledger that was left by a fault cannot be read");
  if (!read.ok()) return ledger.reset(), died();
  RecoveredState recovered = *std::move(read);
  absl::StatusOr<RoundsAtStart> found;
  {
    RoundLog rounds(files_, DataDirectory(kRoot), recovered.boot, kSecret);
    found = ReadRoundsAtStart(rounds, files_, DataDirectory(kRoot), *ledger, recovered);
    ATOLL_CHECK(found.ok(), "the rounds of a ledger cannot be read");
  }
  auto events = EventLog::Open(files_, {.directory = absl::StrCat(kRoot, "/events")});
  if (files_.dead()) return ledger.reset(), died();
  if (!events.ok() && files_.met()) return;
  coordinator_ =
      std::make_unique<SimCoordinator>(SimCoordinatorParts{files_, clock_, work_, work_, log_,
                                                           [this](const absl::Status& status) { EndByDisk(status); }},
                                       std::move(recovered), std::move(ledger), *std::move(events));
  for (auto& [name, worker] : workers_) worker->rerouting.Lead(&coordinator_->bulk);
  coordinator_->engine.Start(*found);
}

void Harness::KillCoordinator() {
  ATOLL_CHECK(coordinator_ != nullptr, "there is no coordinator to kill");
  for (auto& [name, worker] : workers_) {
    worker->rerouting.Lead(nullptr);
    worker->break_connection();
  }
  executor_.RunAll();  // drains the transport; the dead process handles nothing
  coordinator_.reset();
  work_.DropAll();  // drops the pending jobs of the dead process
  executor_.RunAll();
  if (files_.dead()) return files_.Survive(seed_ + ++nonce_);
  files_.Crash();
}

size_t Harness::StopCoordinator() {
  ATOLL_CHECK(coordinator_ != nullptr, "there is no coordinator to stop");
  for (auto& [name, worker] : workers_) worker->break_connection();
  executor_.RunAll();
  // Same as the end of Engine::Run.
  do {
    (void)coordinator_->engine.Turn();
  } while (work_.RunAll() > 0 && !DeadByDisk());
  coordinator_->data.MergeNoMore();
  const auto last = std::make_shared<LastSnapshots>();
  if (!DeadByDisk()) coordinator_->data.SnapshotAll(last, [] {});
  work_.RunAll();
  KillCoordinator();
  return last->written;
}

// The production program ends the process here.
void Harness::EndByDisk(const absl::Status& status) {
  ATOLL_CHECK(status.ok() || files_.met() || files_.dead(), "the disk of the harness does not fail by itself");
  if (!status.ok()) files_.Die();
}

void Harness::StartWorker(const std::string& name) { StartWorkerOfSpeed(name, {}); }

void Harness::StartWorkerOfSpeed(const std::string& name, Duration step) {
  auto worker = std::make_unique<Worker>(*this, name, ++nonce_, step);
  if (coordinator_ != nullptr) worker->rerouting.Lead(&coordinator_->bulk);
  workers_[name] = std::move(worker);
}

void Harness::StartHostileWorker(const std::string& name, double times) {
  StartWorkerOfSpeed(name, Milliseconds(50));
  workers_.at(name)->factory.SetHostile(times);
}

void Harness::KillWorker(const std::string& name) {
  workers_.at(name)->break_connection();
  executor_.RunAll();
  workers_.erase(name);
}

void Harness::RefuseUploads(const std::string& name, int count) { workers_.at(name)->rerouting.refusals = count; }
void Harness::CorruptUploads(const std::string& name, int count) { workers_.at(name)->rerouting.corruptions = count; }
void Harness::LimitUploads(const std::string& name, uint64_t bytes_per_second) {
  workers_.at(name)->slow.upload_bytes_per_second = bytes_per_second;
}
void Harness::DelayDownloads(const std::string& name, Duration each) { workers_.at(name)->slow.download_takes = each; }
void Harness::BreakStream(const std::string& name) { workers_.at(name)->break_connection(); }
void Harness::LeaveWorker(const std::string& name) { workers_.at(name)->session.RequestLeave("asked by the test"); }

absl::Status Harness::Ask(Event event) {
  std::optional<absl::Status> answer;
  coordinator_->engine.Ask(std::move(event), [&answer](const RequestAnswered& answered) { answer = answered.status; });
  RunUntil([&answer] { return answer.has_value(); }, Seconds(60));
  return answer.value_or(absl::DeadlineExceededError("no answer"));
}

void Harness::AskWithoutWaiting(Event event) {
  coordinator_->engine.Ask(std::move(event), [](const RequestAnswered&) {});
}

absl::Status Harness::Submit(const JobSpec& spec, uint64_t dataset_samples) {
  const ModelLayout layout = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
  return Ask(JobSubmitted{.spec = spec,
                          .fragments = static_cast<uint32_t>(layout.fragments.size()),
                          .stop_step = PlannedInnerSteps(spec),
                          .dataset_samples = dataset_samples,
                          .held_out_samples = 8,
                          .wall_nanos = clock_.WallNanos()});
}

absl::Status Harness::Control(const std::string& job, JobAction action) {
  return Ask(JobControlled{.job = JobId{job}, .action = action, .wall_nanos = clock_.WallNanos()});
}

absl::Status Harness::Purge(const std::string& job) { return Ask(JobUnwanted{.job = JobId{job}}); }

absl::Status Harness::RollBack(const std::string& job, uint64_t checkpoint_step) {
  return Ask(JobRolledBack{.job = JobId{job}, .checkpoint_step = checkpoint_step, .wall_nanos = clock_.WallNanos()});
}

void Harness::AskAndTurn(Event event, int turns) {
  coordinator_->engine.Ask(std::move(event), [](const RequestAnswered&) {});
  for (int i = 0; i < turns; ++i) {
    (void)coordinator_->engine.Turn();
    if (work_.pending() > 0) work_.RunOne();
  }
}

bool Harness::TurnAll() {
  if (DeadByDisk()) KillCoordinator();
  bool progressed = executor_.RunAll() + work_.RunAll() > 0;
  next_ = kNever;
  if (coordinator_ != nullptr) next_ = std::min(next_, coordinator_->engine.Turn());
  for (auto& [name, worker] : workers_) {
    next_ = std::min(next_, worker->slow.Turn());
    if (worker->clock.busy()) {
      next_ = std::min({next_, worker->clock.busy_until(), worker->link.Turn()});
      continue;
    }
    worker->heard = false;
    const TurnResult turned = worker->session.Turn();
    (void)worker->link.Turn();  // processes the session's messages, which makes the link due at once
    next_ = std::min(next_, worker->link.Turn());
    progressed = progressed || turned.progressed || worker->heard;
    next_ = std::min(next_, turned.next);
  }
  return progressed || executor_.pending() + work_.pending() > 0;
}

bool Harness::RunUntil(const std::function<bool()>& done, Duration limit) {
  const Instant end = clock_.Now() + limit;
  uint64_t turns = 0;
  while (!done()) {
    if (clock_.Now() >= end) return false;
    const bool progressed = TurnAll();
    ATOLL_CHECK(++turns < 10'000'000, "the harness turns without end");
    if (progressed) continue;
    if (next_ > clock_.Now()) clock_.Set(std::min(std::min(next_, end), clock_.Now() + Seconds(1)));
  }
  return true;
}

void Harness::RunFor(Duration time) {
  (void)RunUntil([] { return false; }, time);
}

std::optional<JobView> Harness::View(const std::string& job) const {
  std::optional<JobView> view;
  Look([&](const Core& core, Instant now) { view = core.ViewJob(JobId{job}, now); });
  return view;
}

std::vector<WorkerView> Harness::ViewWorkers() const {
  std::vector<WorkerView> views;
  Look([&](const Core& core, Instant now) { views = core.ViewWorkers(now); });
  return views;
}

void Harness::Look(const std::function<void(const Core&, Instant)>& look) const {
  if (coordinator_ == nullptr || DeadByDisk()) return;
  bool looked = false;
  coordinator_->engine.Query([&](const Core& core, const History&, Instant now) {
    core.CheckInvariants();
    look(core, now);
    looked = true;
  });
  for (int i = 0; i < 100 && !looked; ++i) {
    (void)coordinator_->engine.Turn();
    if (!looked) (void)work_.RunAll();
  }
}

std::vector<EventLine> Harness::EventLines(const std::string& job) const {
  std::vector<EventLine> lines;
  coordinator_->engine.Query([&](const Core&, const History& history, Instant) {
    const JobHistory* of_job = history.Find(JobId{job});
    if (of_job != nullptr) lines.assign(of_job->events.begin(), of_job->events.end());
  });
  coordinator_->engine.Turn();
  return lines;
}

std::vector<CurvePoint> Harness::Curve(const std::string& job, const std::string& name) const {
  std::vector<CurvePoint> points;
  coordinator_->engine.Query([&](const Core&, const History& history, Instant) {
    const JobHistory* of_job = history.Find(JobId{job});
    if (of_job != nullptr && of_job->curves.contains(name)) points = of_job->curves.at(name).points();
  });
  (void)View(job);
  return points;
}

std::string Harness::MetricsPage() const { return coordinator_->metrics.Expose(); }

bool Harness::Ended(const std::string& job) const {
  const std::optional<JobView> view = View(job);
  return view.has_value() && HasEnded(view->record.state);
}

Version Harness::VersionOf(const std::string& job, uint32_t fragment) const {
  const std::optional<JobView> view = View(job);
  return view.has_value() ? view->fragments[fragment].version : Version{};
}

Digest Harness::HashOf(const std::string& job, uint32_t fragment) const {
  const std::optional<JobView> view = View(job);
  return view.has_value() ? view->fragments[fragment].hash : Digest{};
}

const Session* Harness::session(const std::string& worker) const {
  const auto it = workers_.find(worker);
  return it == workers_.end() ? nullptr : &it->second->session;
}

std::map<uint64_t, Digest> Harness::CommittedHashes(const std::string& job, uint32_t fragment) const {
  std::map<uint64_t, Digest> hashes;
  for (const auto& [version, round] : CommittedRounds(job, fragment)) hashes[version] = round.hash;
  return hashes;
}

std::map<uint64_t, RoundRecord> Harness::CommittedRounds(const std::string& job, uint32_t fragment) const {
  std::map<uint64_t, RoundRecord> rounds;
  for (const auto& transaction : ledger_disk_.transactions) {
    for (const LedgerRecord& record : transaction) {
      const auto* round = std::get_if<RoundRecord>(&record);
      if (round != nullptr && round->job == JobId{job} && round->reached.fragment.value == fragment)
        rounds[round->reached.version.value] = *round;
    }
  }
  return rounds;
}

}  // namespace atl
