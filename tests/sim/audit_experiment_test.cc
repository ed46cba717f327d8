// verify and replay on states that jobs with experiments leave behind: rounds without a worker on purpose, and without
// anybody.
#include <gtest/gtest.h>

#include "coordinator/store/data_directory.h"
#include "tests/sim/audited_runs.h"

namespace atl {
namespace {

constexpr const char* kJob = kAuditedJob;

void ExpectWellAndEqual(const StateOnDisk& state, uint64_t rounds) {
  ExpectWell(state.Verify());
  ExpectAllEqual(state.Replay(), rounds);
}

// Rounds without a worker, and rounds without anybody.
TEST(AuditExperiment, RoundsWithDroppedSyncsAreEqual) {
  for (const CodecKind codec : {CodecKind::kFp32, CodecKind::kMxfp4}) {
    Harness h;
    JobSpec spec = KeptJob(h);
    spec.experiment.drop_sync_probability = 0.7;
    spec.stop.inner_steps = 120;
    spec.sync.download_codec = codec;
    ASSERT_NO_FATAL_FAILURE(RunToItsEnd(h, spec));
    uint64_t empty = 0;
    const std::map<uint64_t, RoundRecord> rounds = h.CommittedRounds(kJob);
    for (const auto& [version, round] : rounds) empty += round.contributions.empty() ? 1 : 0;
    EXPECT_GT(empty, 0u);
    const StateOnDisk state(h);
    ExpectWellAndEqual(state, rounds.size());
  }
}

// A corpus for each worker, contributions weighed by its size.
TEST(AuditExperiment, RoundsWithShardsAreEqual) {
  Harness h;
  JobSpec spec = KeptJob(h);
  const Sha256 manifest = spec.data.corpora[0].manifest;
  spec.data.corpora = {{.name = "one", .manifest = manifest, .samples = 100},
                       {.name = "two", .manifest = manifest, .samples = 230}};
  spec.data.pin_shards = true;
  spec.sync.weights = WeightRule::kShardSize;
  spec.workers = {.min = 1, .max = 2, .planned = 2};
  ASSERT_NO_FATAL_FAILURE(RunToItsEnd(h, spec));
  ExpectWellAndEqual(StateOnDisk(h), h.CommittedRounds(kJob).size());
}

}  // namespace
}  // namespace atl
