// SPDX-License-Identifier: Apache-2.0
// Runs with `experiment`: syncs dropped on purpose, and a changing pool. The ledger stays balanced,
// no trained work is lost, and a restart changes nothing.
#include "common/plan/experiment.h"

#include <gtest/gtest.h>

#include <set>

#include "common/plan/job_validation.h"
#include "common/plan/shards.h"
#include "tests/sim/harness.h"

namespace atl {
namespace {

constexpr char kJob[] = "small";
using Names = std::set<std::string>;

void Start(Harness& h, const JobSpec& spec, const Names& workers) {
  ASSERT_TRUE(ValidateJobSpec(spec, false).empty());
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(spec).ok());
  for (const std::string& name : workers) h.StartWorker(name);
}

void ExpectSucceededAndBalanced(const Harness& h) {
  const std::optional<JobView> view = h.View(kJob);
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->record.state, JobState::kSucceeded) << view->record.reason;
  const BalanceView& balance = view->balance;
  EXPECT_EQ(balance.unleased + balance.leased + balance.consumed + balance.abandoned, balance.dataset);
  EXPECT_EQ(balance.leased, 0u);
  EXPECT_LE(balance.consumed, h.factory().trained().size());
}

// No sample was trained twice, and no drift was discarded.
void ExpectEverySampleOnce(const Harness& h) {
  for (const auto& [position, times] : h.factory().trained()) ASSERT_EQ(times, 1) << position;
  EXPECT_EQ(h.View(kJob)->balance.consumed, h.factory().trained().size());
}

Names MembersOf(const RoundRecord& round) {
  Names names;
  for (const CommittedContribution& c : round.contributions) names.insert(c.header.worker.value);
  return names;
}

JobSpec Dropping(double probability, uint32_t minimum) {
  JobSpec spec = SmallJob(kJob);
  spec.experiment.drop_sync_probability = probability;
  spec.workers = {.min = minimum, .max = 8, .planned = minimum};
  spec.stop.inner_steps = 200;
  spec.inner.schedule.total_steps = 200;
  return spec;
}

// Every round has exactly the workers that are not drawn. A dropped worker later contributes the
// work of all its periods. At the end each trained sample is in exactly one committed contribution.
TEST(DroppedSyncs, AreTheOnesThatAreDrawnAndNoWorkIsLost) {
  const Names workers = {"a", "b", "c"};
  const JobSpec spec = Dropping(0.5, 3);
  Harness h;
  Start(h, spec, workers);
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  ExpectSucceededAndBalanced(h);
  ExpectEverySampleOnce(h);
  const std::map<uint64_t, RoundRecord> rounds = h.CommittedRounds(kJob);
  ASSERT_GE(rounds.size(), 20u);
  std::map<std::string, uint64_t> behind;
  uint64_t dropped = 0, empty = 0;
  for (const auto& [version, round] : rounds) {
    if (version >= 20) break;  // at the end nothing is dropped
    Names expected, lost;
    for (const std::string& name : workers) {
      const bool drops = DropsSync(spec, WorkerId{name}, {FragmentIndex{0}, Version{version - 1}});
      (drops ? lost : expected).insert(name);
      behind[name] += 10;
    }
    EXPECT_EQ(MembersOf(round), expected) << version;
    EXPECT_EQ(round.dropped.size(), lost.size()) << version;
    for (const CommittedContribution& c : round.contributions) {
      EXPECT_EQ(c.header.steps, behind[c.header.worker.value]) << version;
      behind[c.header.worker.value] = 0;
    }
    dropped += lost.size();
    empty += expected.empty() ? 1 : 0;
    if (expected.empty()) {
      EXPECT_EQ(round.tokens, 0u);
      EXPECT_EQ(round.learning_rate, 0.0);
    }
    EXPECT_EQ(round.clock_step, version * 10);
  }
  EXPECT_GT(dropped, 20u);
  EXPECT_GT(empty, 0u) << "the draws of this seed have a round without anybody";
  EXPECT_LT(h.View(kJob)->evaluations.back().nll_micro_nats, h.View(kJob)->evaluations.front().nll_micro_nats);
}

TEST(DroppedSyncs, SameSeedSameHashes) {
  std::map<uint64_t, Digest> first;
  for (int i = 0; i < 2; ++i) {
    Harness h(7);
    Start(h, Dropping(0.3, 2), {"a", "b"});
    ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
    if (i == 0) first = h.CommittedHashes(kJob);
    EXPECT_EQ(first, h.CommittedHashes(kJob));
  }
}

// Consecutive drops beyond every usual limit: no worker runs out of samples, is lost or discards
// its work.
TEST(DroppedSyncs, ALongStretchOfThemStarvesNobody) {
  Harness h;
  Start(h, Dropping(0.9, 2), {"a", "b"});
  bool failing = false;
  ASSERT_TRUE(h.RunUntil([&] {
    for (const WorkerView& view : h.ViewWorkers()) failing = failing || view.state == WorkerState::kLost;
    return h.Ended(kJob);
  }));
  EXPECT_FALSE(failing);
  ExpectSucceededAndBalanced(h);
  ExpectEverySampleOnce(h);
  EXPECT_LE(h.CommittedRounds(kJob).size(), 22u);
}

TEST(DroppedSyncs, SurviveTheCoordinatorsDeath) {
  const JobSpec spec = Dropping(0.6, 2);
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    Harness h(seed);
    Start(h, spec, {"a", "b"});
    for (int kill = 0; kill < 3; ++kill) {
      h.RunFor(Milliseconds(static_cast<int64_t>(737 * seed + 1411 * static_cast<uint64_t>(kill))));
      h.KillCoordinator();
      h.RunFor(Milliseconds(static_cast<int64_t>(150 * seed)));
      h.StartCoordinator();
    }
    ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
    ExpectSucceededAndBalanced(h);
    for (const auto& [version, round] : h.CommittedRounds(kJob)) {
      if (version >= 20) break;
      for (const std::string& name : MembersOf(round)) {
        EXPECT_FALSE(DropsSync(spec, WorkerId{name}, {FragmentIndex{0}, Version{version - 1}})) << version;
      }
    }
  }
}

TEST(DroppedSyncs, WithFragmentsInFlightAndFourBits) {
  Harness h;
  JobSpec spec = Dropping(0.4, 2);
  spec.sync.pattern = FragmentPattern::kStrided;
  spec.sync.layers_per_fragment = 2;
  spec.sync.overlap_steps = 2;
  spec.sync.mix = 0.5;
  spec.sync.upload_codec = spec.sync.download_codec = CodecKind::kMxfp4;
  spec.sync.upload_error_memory = ErrorMemory::kFeedback;
  Start(h, spec, {"a", "b", "c"});
  h.RunFor(Seconds(5));
  h.BreakStream("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  ExpectSucceededAndBalanced(h);
  EXPECT_LT(h.View(kJob)->evaluations.back().nll_micro_nats, h.View(kJob)->evaluations.front().nll_micro_nats);
}

JobSpec Pooled(PoolSchedule pool) {
  JobSpec spec = SmallJob(kJob);
  spec.experiment.pool = pool;
  spec.workers = {.min = 4, .max = 8, .planned = 4};
  spec.stop.inner_steps = 160;
  spec.inner.schedule.total_steps = 160;
  return spec;
}

// The number of contributions of each of the 16 rounds of H = 10, in order.
std::vector<size_t> SizesOf(const Harness& h) {
  const std::map<uint64_t, RoundRecord> rounds = h.CommittedRounds(kJob);
  std::vector<size_t> sizes;
  sizes.reserve(rounds.size());
  for (const auto& [version, round] : rounds) sizes.push_back(round.contributions.size());
  return sizes;
}

std::vector<size_t> Stages(const std::vector<std::pair<size_t, size_t>>& stages) {
  std::vector<size_t> sizes;
  for (const auto& [rounds, size] : stages) sizes.insert(sizes.end(), rounds, size);
  return sizes;
}

using Expected = std::vector<std::pair<PoolSchedule, std::vector<size_t>>>;

const Expected kExpected = {
    {PoolSchedule::kDoubling, Stages({{8, 2}, {8, 4}})},
    {PoolSchedule::kHalving, Stages({{8, 4}, {8, 2}})},
    {PoolSchedule::kRampUp, Stages({{4, 1}, {4, 2}, {4, 3}, {4, 4}})},
    {PoolSchedule::kRampDown, Stages({{4, 4}, {4, 3}, {4, 2}, {4, 1}})},
};

// With workers.min = workers.planned each round has exactly its pool, and each member trains a
// whole period, so the total compute follows the schedule. A worker outside the pool is idle,
// healthy, and holds no samples.
TEST(Pool, EachRoundHasThePoolOfItsTime) {
  for (const auto& [pool, sizes] : kExpected) {
    SCOPED_TRACE(static_cast<int>(pool));
    Harness h;
    Start(h, Pooled(pool), {"a", "b", "c", "d"});
    bool failing = false, holding = false, explained = true;
    ASSERT_TRUE(h.RunUntil([&] {
      const std::optional<JobView> view = h.View(kJob);
      for (const WorkerView& worker : h.ViewWorkers()) {
        failing = failing || worker.state == WorkerState::kLost;
        const bool idle = worker.job.value.empty() && view->record.state == JobState::kRunning && worker.connected;
        if (idle) explained = explained && worker.last.waiting_for.find("pool takes") != std::string::npos;
        holding = holding || (idle && h.session(worker.worker.value)->core().samples_held() > 0 &&
                              h.session(worker.worker.value)->core().job().value.empty());
      }
      return h.Ended(kJob);
    }));
    EXPECT_FALSE(failing);
    EXPECT_FALSE(holding);
    EXPECT_TRUE(explained);
    ExpectSucceededAndBalanced(h);
    ExpectEverySampleOnce(h);
    EXPECT_EQ(SizesOf(h), sizes);
    uint64_t members = 0;
    for (const auto& [version, round] : h.CommittedRounds(kJob)) {
      for (const CommittedContribution& c : round.contributions) EXPECT_EQ(c.header.steps, 10u) << version;
      members += round.contributions.size();
    }
    EXPECT_EQ(h.View(kJob)->balance.consumed, members * 10 * 4) << "H steps of four samples a member";
  }
}

TEST(Pool, SurvivesTheCoordinatorsDeath) {
  for (const auto& [pool, sizes] : kExpected) {
    for (int64_t moment = 1; moment <= 4; ++moment) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(pool) << " moment " << moment);
      Harness h(static_cast<uint64_t>(moment));
      Start(h, Pooled(pool), {"a", "b", "c", "d"});
      for (int kill = 0; kill < 3; ++kill) {
        h.RunFor(Milliseconds(2711 * moment + 3137 * kill));
        if (h.Ended(kJob)) break;
        h.KillCoordinator();
        h.RunFor(Milliseconds(200));
        h.StartCoordinator();
      }
      ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
      ExpectSucceededAndBalanced(h);
      std::vector<size_t> found = SizesOf(h);
      found.resize(std::min<size_t>(found.size(), 16));  // drift left over by a restart is contributed at the end
      EXPECT_EQ(found, sizes);
    }
  }
}

// workers.min = 1: the pool is only an upper bound, and no round waits for a missing worker.
TEST(Pool, OfWorkersThatAreNotThereIsNotWaitedFor) {
  Harness h;
  JobSpec spec = Pooled(PoolSchedule::kRampUp);
  spec.workers.min = 1;
  Start(h, spec, {"a", "b"});
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  ExpectSucceededAndBalanced(h);
  for (const size_t size : SizesOf(h)) EXPECT_LE(size, 2u);
}

TEST(Pool, GoesTogetherWithFragmentsAndDroppedSyncs) {
  for (const auto& [pool, sizes] : kExpected) {
    SCOPED_TRACE(static_cast<int>(pool));
    Harness h;
    JobSpec spec = Pooled(pool);
    spec.sync.pattern = FragmentPattern::kStrided;
    spec.sync.layers_per_fragment = 2;
    spec.sync.overlap_steps = 1;
    spec.workers.min = 1;
    spec.experiment.drop_sync_probability = 0.3;
    Start(h, spec, {"a", "b", "c", "d"});
    ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
    ExpectSucceededAndBalanced(h);
  }
}

// Two corpora of different size, one worker each. Every sample comes from the worker's own corpus,
// each contribution is weighted by its corpus, and a restart changes nothing.
JobSpec Pinned() {
  JobSpec spec = SmallJob(kJob);
  const Sha256 manifest = spec.data.corpora[0].manifest;
  spec.data.corpora = {{.name = "one", .manifest = manifest, .samples = 100},
                       {.name = "two", .manifest = manifest, .samples = 300}};
  spec.data.pin_shards = true;
  spec.sync.weights = WeightRule::kShardSize;
  spec.workers = {.min = 2, .max = 2, .planned = 2};
  return spec;
}

// The corpora of each worker in committed contributions. Checks that weights are proportional to
// corpus sizes when both workers trained the whole period.
std::map<std::string, std::set<uint32_t>> CorporaOf(const Harness& h) {
  std::map<std::string, std::set<uint32_t>> corpora;
  for (const auto& [version, round] : h.CommittedRounds(kJob)) {
    for (const CommittedContribution& c : round.contributions) {
      const std::optional<uint32_t> corpus = ShardOf(c.header.cursors);
      EXPECT_TRUE(corpus.has_value());
      corpora[c.header.worker.value].insert(*corpus);
      const auto whole = [](const CommittedContribution& one) { return one.header.steps == 10; };
      if (round.contributions.size() == 2 && std::ranges::all_of(round.contributions, whole)) {
        EXPECT_EQ(c.weight, *corpus == 0 ? 0.25 : 0.75) << version;
      }
    }
  }
  return corpora;
}

TEST(Shards, EachWorkerReadsItsOwnCorpusAndWeighsByItsSize) {
  Harness h;
  Start(h, Pinned(), {"a", "b"});
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 2; }));
  std::set<std::string> shown;
  for (const WorkerView& view : h.ViewWorkers()) shown.insert(view.corpus);
  EXPECT_EQ(shown, (std::set<std::string>{"one", "two"}));
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  ExpectSucceededAndBalanced(h);
  ExpectEverySampleOnce(h);
  const auto corpora = CorporaOf(h);
  EXPECT_EQ(corpora.at("a").size(), 1u);
  EXPECT_EQ(corpora.at("b").size(), 1u);
  EXPECT_NE(corpora.at("a"), corpora.at("b"));
  uint64_t in_second = 0;
  for (const auto& [position, times] : h.factory().trained()) in_second += position >= kShardPositions ? 1 : 0;
  EXPECT_EQ(in_second * 2, h.factory().trained().size());
}

TEST(Shards, SurviveTheCoordinatorsDeath) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    Harness h(seed);
    Start(h, Pinned(), {"a", "b"});
    for (int kill = 0; kill < 3; ++kill) {
      h.RunFor(Milliseconds(static_cast<int64_t>(137 * seed + 811 * static_cast<uint64_t>(kill))));
      h.KillCoordinator();
      h.RunFor(Milliseconds(static_cast<int64_t>(50 * seed)));
      h.StartCoordinator();
    }
    ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
    ExpectSucceededAndBalanced(h);
    for (const auto& [worker, corpora] : CorporaOf(h)) EXPECT_EQ(corpora.size(), 1u) << worker;
  }
}

// The replacement of a lost worker continues its corpus. Without a replacement the corpus waits and
// the run continues.
TEST(Shards, ALostWorkersCorpusWaitsForTheNextOne) {
  Harness h;
  JobSpec spec = Pinned();
  spec.workers.min = 1;
  spec.stop.inner_steps = 2000;
  Start(h, spec, {"a", "b"});
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 2; }));
  h.KillWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.View(kJob)->participating == 1; }));
  h.StartWorker("c");
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }, Seconds(1200)));
  ExpectSucceededAndBalanced(h);
  const auto corpora = CorporaOf(h);
  EXPECT_EQ(corpora.at("a").size(), 1u);
  EXPECT_EQ(corpora.at("c"), corpora.at("b"));
}

}  // namespace
}  // namespace atl
