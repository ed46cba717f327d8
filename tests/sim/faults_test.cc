// SPDX-License-Identifier: Apache-2.0
// Runs with random faults in one thread. Whatever dies, breaks, stalls or leaves, in whatever
// order, the run ends as planned, nothing committed changes (I2, I6), every sample is accounted for
// (I12), and equal seeds give equal runs.
//
// ATOLL_SEEDS: the number of seeds of each test; a few by default, many in the long tests.
// ATOLL_FIRST_SEED: the first seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "common/base/random.h"
#include "tests/sim/draws.h"
#include "tests/sim/harness.h"

namespace atl {
namespace {

constexpr char kJob[] = "small";
#ifdef ATOLL_SANITIZED
constexpr uint64_t kSeeds = 10;  // each takes many times as long
#else
constexpr uint64_t kSeeds = 40;
#endif

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

JobSpec RandomJob(Rng& rng) {
  JobSpec spec = SmallJob(kJob);
  spec.stop.inner_steps = 300;  // 15 s of steps, so that most faults happen while the job runs
  spec.inner.schedule.total_steps = 300;
  DrawSync(rng, spec.sync);
  spec.workers.min = 1 + static_cast<uint32_t>(rng.Below(2));
  spec.checkpoint.every_rounds = static_cast<uint32_t>(rng.Below(4));
  spec.evaluation.every_rounds = static_cast<uint32_t>(rng.Below(3));
  return spec;
}

class Story {
 public:
  explicit Story(uint64_t seed) : rng_(StreamKey(seed, "faults")), harness_(seed) {
    spec_ = RandomJob(rng_);
    harness_.StartCoordinator();
    EXPECT_TRUE(harness_.Submit(spec_).ok());
    const uint64_t workers = spec_.workers.min + rng_.Below(3);
    for (uint64_t i = 0; i < workers; ++i) Start(std::string(1, static_cast<char>('a' + i)));
  }

  // Some time without faults, then one fault.
  void Fault() {
    Pass(2500);
    if (harness_.coordinator_runs() && harness_.Ended(kJob)) return;
    ++faults_;
    if (!harness_.coordinator_runs()) return Revive();
    switch (rng_.Below(7)) {
      case 0: harness_.KillCoordinator(); break;
      case 1: KillWorker(); break;
      case 2: harness_.BreakStream(AnyWorker()); break;
      case 3: Leave(); break;
      case 4: PauseOrResume(); break;
      case 5: harness_.RefuseUploads(AnyWorker(), 1 + static_cast<int>(rng_.Below(3))); break;
      case 6: Revive(); break;
    }
    CheckHistory();
  }

  // Everything that is gone returns; no more faults.
  void Calm() {
    if (!harness_.coordinator_runs()) harness_.StartCoordinator();
    for (const std::string& name : std::set<std::string>(gone_)) Start(name);
    if (paused_) PauseOrResume();
    const bool ended = harness_.RunUntil([&] { return harness_.Ended(kJob); }, Seconds(3000));
    const std::optional<JobView> view = harness_.View(kJob);
    ASSERT_TRUE(view.has_value());
    ASSERT_TRUE(ended) << view->waiting_line;
    EXPECT_EQ(view->record.state, JobState::kSucceeded) << view->record.reason;
    CheckHistory();
    CheckBalance(view->balance);
  }

  const std::map<uint64_t, Digest>& history() const { return history_; }
  uint64_t faults() const { return faults_; }  // while the job ran

 private:
  void Pass(uint64_t most_ms) { harness_.RunFor(Milliseconds(static_cast<int64_t>(rng_.Below(most_ms)))); }

  std::string AnyWorker() {
    const uint64_t at = rng_.Below(present_.size());
    return *std::next(present_.begin(), static_cast<std::ptrdiff_t>(at));
  }
  void Start(const std::string& name) {
    harness_.StartWorker(name);
    present_.insert(name);
    gone_.erase(name);
  }
  void Gone(const std::string& name) {
    present_.erase(name);
    gone_.insert(name);
  }
  void KillWorker() {
    if (present_.size() < 2) return;
    const std::string name = AnyWorker();
    harness_.KillWorker(name);
    Gone(name);
  }
  void Leave() {
    if (present_.size() < 2) return;
    const std::string name = AnyWorker();
    harness_.LeaveWorker(name);
    (void)harness_.RunUntil([&] { return harness_.session(name)->exit().has_value(); }, Seconds(60));
    harness_.KillWorker(name);
    Gone(name);
  }
  void Revive() {
    if (rng_.Below(2) == 0) Pass(30'000);  // perhaps long enough to count as lost
    if (!harness_.coordinator_runs()) {
      harness_.StartCoordinator();
    } else if (!gone_.empty()) {
      Start(*gone_.begin());
    }
  }
  void PauseOrResume() {
    const absl::Status done = harness_.Control(kJob, paused_ ? JobAction::kResume : JobAction::kPause);
    if (done.ok()) paused_ = !paused_;
  }

  // A committed version never changes.
  void CheckHistory() {
    for (const auto& [version, hash] : harness_.CommittedHashes(kJob)) {
      const auto [known, added] = history_.emplace(version, hash);
      ASSERT_TRUE(added || known->second == hash) << "version " << version << " has become another one";
    }
    uint64_t expected = 1;
    for (const auto& [version, hash] : history_) ASSERT_EQ(version, expected++) << "a version is missing";
  }
  void CheckBalance(const BalanceView& balance) const {
    EXPECT_EQ(balance.unleased + balance.leased + balance.consumed + balance.abandoned, balance.dataset);
    EXPECT_LE(balance.consumed, harness_.factory().trained().size());
    EXPECT_EQ(balance.leased, 0u) << "an ended job holds leases";
  }

  Rng rng_;
  Harness harness_;
  JobSpec spec_;
  std::set<std::string> present_, gone_;
  bool paused_ = false;
  uint64_t faults_ = 0;
  std::map<uint64_t, Digest> history_;
};

struct Played {
  std::map<uint64_t, Digest> history;
  uint64_t faults = 0;
};

Played Play(uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed << "; play it alone with ATOLL_SEEDS=1 ATOLL_FIRST_SEED=" << seed);
  Story story(seed);
  Rng rng(StreamKey(seed, "length"));
  for (uint64_t faults = 2 + rng.Below(10); faults > 0 && !testing::Test::HasFatalFailure(); --faults) story.Fault();
  if (!testing::Test::HasFatalFailure()) story.Calm();
  return {story.history(), story.faults()};
}

TEST(Faults, EveryRunEndsAndNothingCommittedIsLost) {
  const uint64_t first = FromEnvironment("ATOLL_FIRST_SEED", 1), seeds = FromEnvironment("ATOLL_SEEDS", kSeeds);
  uint64_t faults = 0;
  for (uint64_t seed = first; seed < first + seeds && !HasFailure(); ++seed) {
    faults += Play(seed).faults;
  }
  EXPECT_TRUE(HasFailure() || faults >= 4 * seeds) << "only " << faults << " faults came while a job ran";
}

TEST(Faults, OneSeedIsOneRun) {
  const uint64_t first = FromEnvironment("ATOLL_FIRST_SEED", 1), seeds = FromEnvironment("ATOLL_SEEDS", kSeeds);
  for (uint64_t seed = first; seed < first + seeds / 10 + 1 && !HasFailure(); ++seed) {
    EXPECT_EQ(Play(seed).history, Play(seed).history) << "seed " << seed;
  }
}

}  // namespace
}  // namespace atl
