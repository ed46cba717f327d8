// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/swarm.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "tests/sim/backups.h"
#include "tests/sim/draws.h"
#include "tests/sim/swarm_end.h"
#include "tests/sim/world.h"

namespace atl {
namespace {

constexpr Duration kMeanPause = Seconds(45);  // between two faults
constexpr Duration kTogether = Seconds(5);    // longest time between two combined faults
constexpr Duration kToHeal = Seconds(4 * 3600);
constexpr uint64_t kRoundsAfterwards = 2;  // per fragment, before a job without an end is drained
constexpr const char* kStalled = "network: transfers stall";
constexpr size_t kMostWorkers = 8, kMostJobs = 3;

class Swarm {
 public:
  Swarm(uint64_t seed, const SwarmOptions& options)
      : options_(options),
        rng_(StreamKey(seed, "swarm")),
        strangers_(StreamKey(seed, "strangers")),
        data_(StreamKey(seed, "data")),
        stalls_(StreamKey(seed, "stalls")),
        backups_(seed),
        world_(seed, options.sqlite, options.tell) {
    const std::string manifest = "toy";
    const Bytes bytes = AsBytes(manifest);
    world_.files().SetContent(DataDirectory("/state").BlobPath(Sha256Of(bytes)), {bytes.begin(), bytes.end()});
    for (const Kind& kind : kKinds) {
      if (kind.most > 0) weights_.push_back(rng_.Below(4) == 0 ? 0 : 1 + rng_.Below(kind.most));
    }
    world_.StartCoordinator();
    Submit();
    for (uint64_t workers = 2 + rng_.Below(4); workers > 0; --workers) StartWorker(0);
  }

  void Faults() {
    const Instant end = world_.clock().Now() + Seconds(static_cast<int64_t>(options_.hours * 3600));
    while (world_.clock().Now() < end && Holds()) {
      world_.RunFor(Below(rng_, kMeanPause * 2));
      Reopen();
      Mend();
      if (Holds() && options_.rows.empty()) Fault();
      if (Holds() && !options_.rows.empty()) Together();
      if (Holds() && options_.strangers) ++faults_[world_.MeetStranger(strangers_)];
      if (Holds() && options_.strangers && options_.voids && world_.MeetVoid())
        ++faults_["stranger: a contribution of a void incarnation"];
      if (Holds() && options_.strangers && options_.stalls && stalls_.Below(4) == 0 && Stall(stalls_))
        ++faults_[kStalled];
      if (Holds() && options_.strangers && options_.restores) {
        if (const char* did = backups_.Play(world_); did != nullptr) ++faults_[did], Say(did);
      }
    }
  }

  // Everything returns. A job without an end is drained after some rounds. Then every job must end.
  void Heal() {
    healing_ = true;
    world_.files().FailAt(UINT64_MAX, DiskFault::kNone);
    world_.files().space = {uint64_t{1} << 40, uint64_t{1} << 41};
    world_.SetDiskDelay({});
    low_space_ = false;
    world_.AskSoon(DiskSpace{.low = false});
    closed_until_.clear();
    for (const std::string& name : world_.workers()) {
      if (hostile_.contains(name) || world_.HasLeft(name)) {
        world_.KillWorker(name);
        continue;
      }
      world_.Join(name);
      world_.SetLink(name, {});
      world_.StopWorker(name, {});
    }
    hostile_.clear();
    while (world_.workers().size() < 3) StartWorker(0);
    const Instant end = world_.clock().Now() + kToHeal;
    while (Holds() && !AllEnded()) {
      if (world_.clock().Now() > end)
        return world_.laws().Break(absl::StrCat("no progress after all was mended: ", UnendedJobs(world_, jobs_)));
      Mend();
      Drain();
      world_.RunFor(Seconds(20));
    }
    CheckData();
  }

  SwarmResult Result() {
    if (!Holds() && options_.tell) Say(StandingOf(world_, jobs_));
    if (Holds() && options_.audit) AuditLeft(world_);
    SwarmResult result;
    result.broken = world_.laws().broken();
    result.trace = world_.trace();
    result.simulated_seconds = ToSeconds(world_.clock().Now() - Instant{1'000'000'000});
    result.messages = world_.network().delivered();
    result.lost_messages = world_.network().lost();
    result.steps = world_.passes();
    result.faults = faults_;
    result.of_rows = of_rows_;
    result.counts = world_.laws().counts();
    return result;
  }

  struct Kind {
    const char* name;
    uint64_t most;  // the largest weight
    void (Swarm::*play)();
    const char* row = "";  // of docs/results/faults.md
  };
  static const std::vector<Kind> kKinds;

 private:
  bool Holds() { return world_.laws().broken().empty(); }
  void Say(const std::string& what) {
    if (options_.tell) std::printf("%10.1f s  %s\n", ToSeconds(world_.clock().Now() - Instant{}), what.c_str());
  }

  void Fault() {
    uint64_t sum = 0;
    for (const uint64_t weight : weights_) sum += weight;
    uint64_t at = rng_.Below(std::max<uint64_t>(1, sum));
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (at < weights_[i]) return Play(kKinds[i]);
      at -= weights_[i];
    }
  }
  void Play(const Kind& kind) {
    played_ = kind.name;
    row_ = kind.row;
    Say(played_);
    (this->*kind.play)();
  }
  // Plays each row of options_.rows once, in a drawn order, within seconds of each other.
  void Together() {
    std::vector<std::string> rows = options_.rows;
    if (rng_.Below(2) == 0) std::reverse(rows.begin(), rows.end());
    for (const std::string& row : rows) {
      std::vector<const Kind*> kinds;
      for (const Kind& kind : kKinds) {
        if (kind.row == row) kinds.push_back(&kind);
      }
      ATOLL_CHECK(!kinds.empty(), "no fault of that row is simulated");
      if (!Holds()) return;
      Play(*kinds[rng_.Below(kinds.size())]);
      world_.RunFor(Below(rng_, kTogether));
    }
  }
  // Unblocks links once their fault time has passed.
  void Reopen() {
    for (auto it = closed_until_.begin(); it != closed_until_.end();) {
      const bool over = it->second <= world_.clock().Now();
      if (over && world_.session(it->first) != nullptr) world_.Join(it->first);
      it = over ? closed_until_.erase(it) : std::next(it);
    }
  }
  void Happened() {
    ++faults_[played_];
    if (*row_ != 0) ++of_rows_[row_];
  }

  // Acts as operators and supervisors: restarts dead processes, resumes jobs that a failing disk
  // paused.
  void Mend() {
    if (!world_.coordinator_runs()) {
      if (!healing_ && rng_.Below(2) == 0) world_.RunFor(Below(rng_, Seconds(120)));
      for (int tries = 0; tries < 20 && !world_.coordinator_runs() && Holds(); ++tries) world_.StartCoordinator();
    }
    for (const std::string& name : world_.workers()) {
      if (world_.HasLeft(name)) world_.KillWorker(name);
    }
    while (world_.workers().size() < 2) StartWorker(0);
    for (const WorkerView& worker : world_.ViewWorkers()) {
      const bool kept_out = worker.state == WorkerState::kQuarantined || worker.cordoned;
      if (kept_out && (healing_ || rng_.Below(4) == 0))
        world_.AskSoon(WorkerSteered{.worker = worker.worker, .action = WorkerAction::kReadmit});
    }
    for (const JobId& job : jobs_) {
      const auto view = world_.View(job);
      if (!view) {
        if (world_.coordinator_runs()) world_.AskSoon(Submission(job));
      } else if (view->record.state == JobState::kPaused && (healing_ || view->stopped)) {
        if (view->stopped) Restart();
        world_.AskSoon(Controlled(job, JobAction::kResume));
      }
    }
  }
  // Only a restarted coordinator resumes a job that stopped after a disk fault.
  void Restart() {
    if (!world_.coordinator_runs()) return;
    world_.KillCoordinator(Death::kKilled);
    world_.StartCoordinator();
  }
  void Drain() {
    for (const JobId& job : jobs_) {
      const auto view = world_.View(job);
      if (!view || HasEnded(view->record.state) || view->record.draining) continue;
      if (view->record.stop_step < kWithoutEnd || samples_.at(job) < UINT64_MAX) continue;
      if (!drain_at_.contains(job)) {
        drain_at_[job] = world_.laws().RoundsOf(job) + kRoundsAfterwards * view->fragments.size();
      } else if (world_.laws().RoundsOf(job) >= drain_at_[job]) {
        world_.AskSoon(Controlled(job, JobAction::kCancelWithDrain));
      }
    }
  }
  bool AllEnded() {
    if (!world_.coordinator_runs()) return false;
    return std::all_of(jobs_.begin(), jobs_.end(), [this](const JobId& job) {
      const auto view = world_.View(job);
      return view && HasEnded(view->record.state);
    });
  }
  // A job that ends only with its data has trained all of it.
  void CheckData() {
    for (const JobId& job : jobs_) {
      const auto view = world_.View(job);
      const bool by_data = samples_.at(job) < UINT64_MAX && specs_.at(job).stop.inner_steps == kWithoutEnd;
      if (!view || !by_data || view->record.state != JobState::kSucceeded) continue;
      if (view->balance.consumed + view->balance.abandoned != view->balance.dataset)
        world_.laws().Break(absl::StrCat("job ", job.value, " has succeeded with samples that were never trained: ",
                                         view->balance.consumed, " of ", view->balance.dataset));
    }
  }
  // ---- events
  JobSubmitted Submission(const JobId& job) const {
    return SubmissionOf(job, specs_.at(job), samples_.at(job), world_.WallNanos());
  }
  JobControlled Controlled(const JobId& job, JobAction action) const {
    return {.job = job, .action = action, .wall_nanos = world_.WallNanos()};
  }
  void Submit() {
    if (jobs_.size() >= kMostJobs) return;
    const JobId job{absl::StrCat("job-", jobs_.size())};
    specs_[job] = DrawJob(rng_, job.value);
    if (options_.strangers && strangers_.Below(4) == 0)
      specs_[job].experiment.drop_sync_probability = OneOf(strangers_, {0.05, 0.2});
    if (options_.drop_syncs) specs_[job].experiment.drop_sync_probability = *options_.drop_syncs;
    samples_[job] = options_.samples == 0 ? UINT64_MAX : 1 + data_.Below(options_.samples);
    jobs_.push_back(job);
    world_.AskSoon(Submission(job));
    Happened();
  }
  void Control(JobAction action) {
    if (!world_.coordinator_runs()) return;
    world_.AskSoon(Controlled(jobs_[rng_.Below(jobs_.size())], action));
    Happened();
  }
  void Pause() { Control(JobAction::kPause); }
  void Resume() { Control(JobAction::kResume); }
  void Cancel() { Control(rng_.Below(2) == 0 ? JobAction::kCancel : JobAction::kCancelWithDrain); }
  void RollBack() {
    const JobId job = jobs_[rng_.Below(jobs_.size())];
    const auto view = world_.View(job);
    if (!view || view->checkpoints.empty()) return;
    const CheckpointRecord& to = view->checkpoints[rng_.Below(view->checkpoints.size())];
    world_.AskSoon(Controlled(job, JobAction::kPause));
    world_.RunFor(Seconds(5));
    world_.AskSoon(JobRolledBack{.job = job, .checkpoint_step = to.step, .wall_nanos = world_.WallNanos()});
    world_.RunFor(Below(rng_, Seconds(10)));
    world_.AskSoon(Controlled(job, JobAction::kResume));
    Happened();
  }

  // ---- the coordinator and its disk
  void Kill(Death death) {
    if (!world_.coordinator_runs()) return;
    world_.KillCoordinator(death, death != Death::kKilled && rng_.Below(2) == 0);
    Happened();
  }
  void KillCoordinator() { Kill(Death::kKilled); }
  void CutPower() { Kill(Death::kPowerCut); }
  void TearPower() { Kill(Death::kTornPowerCut); }
  void KillInAStep() {
    world_.KillCoordinatorAfter(rng_.Below(300));
    Happened();
  }
  void StopCoordinator() {
    if (!world_.coordinator_runs()) return;
    world_.StopCoordinator(Seconds(1) + Below(rng_, Seconds(90)));
    Happened();
  }
  void FailDisk() {
    const DiskFault faults[] = {DiskFault::kKilledBefore, DiskFault::kKilledAfter, DiskFault::kPowerCut,
                                DiskFault::kTornPowerCut, DiskFault::kError,       DiskFault::kFull,
                                DiskFault::kShortWrite};
    const char* const names[] = {"disk: killed before a call", "disk: killed after a call", "disk: power cut at a call",
                                 "disk: torn at a call",       "disk: input/output error",  "disk: full",
                                 "disk: short write"};
    const size_t which = rng_.Below(std::size(faults));
    world_.files().FailAt(rng_.Below(200), faults[which]);
    played_ = names[which];
    Happened();
  }
  void SlowDisk() {
    world_.SetDiskDelay(rng_.Below(2) == 0 ? Duration{} : Below(rng_, Milliseconds(600)));
    Happened();
  }
  void LowSpace() {
    low_space_ = !low_space_;
    world_.AskSoon(DiskSpace{.low = low_space_});
    Happened();
  }
  // Reports low space and makes one of the next calls fail; or reports that there is space again.
  void FillDisk() {
    LowSpace();
    if (low_space_) world_.files().FailAt(rng_.Below(100), DiskFault::kFull);
  }
  void JumpClock() {
    const Duration jumps[] = {Seconds(3600), Seconds(-3600), Seconds(10LL * 365 * 86400), Seconds(-10LL * 365 * 86400)};
    world_.JumpWallClock(OneOf(rng_, jumps));
    Happened();
  }

  // ---- workers
  void StartWorker(double hostile) {
    if (world_.workers().size() >= kMostWorkers) return;
    std::string name;
    for (size_t i = 0; name.empty(); ++i) {
      const std::string free = absl::StrCat("w", i);
      if (world_.session(free) == nullptr) name = free;
    }
    if (hostile > 0) name = absl::StrCat("h", hostiles_++);
    if (world_.session(name) != nullptr) return;
    const LineQuality link{Milliseconds(1) + Below(rng_, Milliseconds(50)),
                           Below(rng_, Milliseconds(20)) + Nanoseconds(1), rng_.Below(4) == 0 ? 0.01 : 0};
    world_.StartWorker(name, {Milliseconds(500) + Below(rng_, Milliseconds(1500)), link, hostile});
    if (hostile > 0) hostile_.insert(name);
  }
  std::string AnyWorker(Rng& rng) {
    const std::vector<std::string> names = world_.workers();
    return names[rng.Below(names.size())];
  }
  std::string AnyWorker() { return AnyWorker(rng_); }
  void JoinWorker() {
    StartWorker(0);
    Happened();
  }
  void KillWorker() {
    world_.KillWorker(AnyWorker());
    if (world_.workers().empty()) StartWorker(0);
    Happened();
  }
  void StopWorker() {
    const int64_t lengths[] = {1, 5, 30, 60, 600};
    world_.StopWorker(AnyWorker(), Seconds(OneOf(rng_, lengths)));
    Happened();
  }
  void LeaveWorker() {
    world_.LeaveWorker(AnyWorker());
    Happened();
  }
  void DrainWorker() {
    world_.AskSoon(WorkerSteered{.worker = WorkerId{AnyWorker()}, .action = WorkerAction::kDrain});
    Happened();
  }
  void EvictWorker() {
    world_.AskSoon(WorkerSteered{.worker = WorkerId{AnyWorker()}, .action = WorkerAction::kEvict});
    Happened();
  }
  void CordonWorker() {
    world_.AskSoon(WorkerSteered{.worker = WorkerId{AnyWorker()}, .action = WorkerAction::kCordon});
    Happened();
  }
  void BreakStream() {
    world_.BreakStream(AnyWorker());
    Happened();
  }
  void LoseStream() {
    world_.LoseStream(AnyWorker());
    Happened();
  }
  void Part() {
    const std::string name = AnyWorker();
    const uint64_t ways = rng_.Below(3);
    world_.Part(name, ways != 0, ways != 1);
    played_ = ways == 0   ? "partition: nothing comes down"
              : ways == 1 ? "partition: nothing goes up"
                          : "partition: both ways";
    Happened();
    const Duration time = Seconds(1) + Below(rng_, Seconds(60));
    if (!options_.rows.empty()) {  // so that the combined faults meet the partition
      closed_until_[name] = world_.clock().Now() + time;
      return;
    }
    world_.RunFor(time);
    if (world_.session(name) == nullptr) return;
    if (rng_.Below(2) == 0) world_.BreakStream(name);
    world_.Join(name);
  }
  // Stops the bytes of a running or later transfer for some time; the control stream continues.
  bool Stall(Rng& rng) {
    const std::string name = AnyWorker(rng);
    if (closed_until_.contains(name)) return false;
    world_.StallTransfers(name);
    closed_until_[name] = world_.clock().Now() + Seconds(1) + Below(rng, Seconds(120));
    return true;
  }
  void StallTransfers() {
    if (Stall(rng_)) Happened();
  }
  void WorseLink() {
    const LineQuality links[] = {{Milliseconds(150), Milliseconds(50), 0.01},
                                 {Milliseconds(300), Milliseconds(300), 0.05},
                                 {Milliseconds(50), Milliseconds(20), 0.2},
                                 {Seconds(2), Seconds(1), 0},
                                 {Milliseconds(1), {}, 0}};
    world_.SetLink(AnyWorker(), OneOf(rng_, links));
    Happened();
  }
  void RefuseUploads() {
    world_.RefuseUploads(AnyWorker(), 1 + static_cast<int>(rng_.Below(3)));
    Happened();
  }
  void CorruptUploads() {
    world_.CorruptUploads(AnyWorker(), 1 + static_cast<int>(rng_.Below(2)));
    Happened();
  }
  void Hostile() {
    const double times[] = {1000, 1e6, std::numeric_limits<double>::infinity()};
    StartWorker(OneOf(rng_, times));
    Happened();
  }

  const SwarmOptions options_;
  Rng rng_, strangers_, data_, stalls_;  // separate streams, so that the draws of rng_ stay unchanged
  Backups backups_;
  World world_;
  std::vector<uint64_t> weights_;
  std::vector<JobId> jobs_;
  std::map<JobId, JobSpec> specs_;
  std::map<JobId, uint64_t> samples_;
  std::map<JobId, uint64_t> drain_at_;
  std::set<std::string> hostile_;
  std::map<std::string, Instant> closed_until_;  // of links, by worker
  uint64_t hostiles_ = 0;
  bool healing_ = false, low_space_ = false;
  const char *played_ = "submit a job", *row_ = "";
  std::map<std::string, uint64_t> faults_, of_rows_;
};

const std::vector<Swarm::Kind> Swarm::kKinds = {
    {"coordinator: killed", 4, &Swarm::KillCoordinator, "F2"},
    {"coordinator: power cut", 3, &Swarm::CutPower},
    {"coordinator: power cut, torn", 3, &Swarm::TearPower},
    {"coordinator: killed between two steps", 6, &Swarm::KillInAStep, "F2"},
    {"coordinator: stopped", 3, &Swarm::StopCoordinator},
    {"disk", 6, &Swarm::FailDisk},
    {"disk: slow, or no longer", 2, &Swarm::SlowDisk, "F19"},
    {"disk: low on space, or no longer", 2, &Swarm::LowSpace},
    {"clock: wall time jumps", 2, &Swarm::JumpClock},
    {"worker: joins", 6, &Swarm::JoinWorker},
    {"worker: killed", 6, &Swarm::KillWorker, "F1"},
    {"worker: stopped", 6, &Swarm::StopWorker, "F4"},
    {"worker: leaves", 3, &Swarm::LeaveWorker},
    {"worker: drained", 3, &Swarm::DrainWorker},
    {"worker: evicted", 1, &Swarm::EvictWorker},
    {"worker: cordoned", 1, &Swarm::CordonWorker},
    {"network: stream reset", 4, &Swarm::BreakStream},
    {"network: half-open stream", 4, &Swarm::LoseStream},
    {"network: partition", 6, &Swarm::Part, "F8"},
    {"network: another link", 4, &Swarm::WorseLink, "F7"},
    {"upload: refused for good", 2, &Swarm::RefuseUploads},
    {"upload: other bytes arrive", 3, &Swarm::CorruptUploads},
    {"hostile worker", 2, &Swarm::Hostile},
    {"job: submitted", 2, &Swarm::Submit},
    {"job: paused", 2, &Swarm::Pause},
    {"job: resumed", 4, &Swarm::Resume},
    {"job: cancelled", 1, &Swarm::Cancel},
    {"job: rolled back", 3, &Swarm::RollBack},
    // Only with rows.
    {kStalled, 0, &Swarm::StallTransfers, "F11"},
    {"disk: full, or no longer", 0, &Swarm::FillDisk, "F16"},
};

}  // namespace

std::vector<std::string> SimulatedRows() {
  std::set<std::string> rows;
  for (const Swarm::Kind& kind : Swarm::kKinds) rows.insert(kind.row);
  rows.erase("");
  return {rows.begin(), rows.end()};
}

SwarmResult PlaySwarm(uint64_t seed, const SwarmOptions& options) {
  Swarm swarm(seed, options);
  swarm.Faults();
  swarm.Heal();
  return swarm.Result();
}

}  // namespace atl
