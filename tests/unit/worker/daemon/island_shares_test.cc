#include "worker/daemon/island_shares.h"

#include <gtest/gtest.h>

#include "tests/unit/worker/island/island_of_threads.h"
#include "tests/unit/worker/train/tiny_job.h"

namespace atl {
namespace {

TEST(IslandShares, ARankSeesTheLargestShareAsTheBatch) {
  JobSpec job = TinyJob();
  job.batch.sequences_per_step = 10;
  job.batch.micro_batch = 8;
  EXPECT_EQ(SpecOfShare(job, 4).batch.sequences_per_step, 3u);
  EXPECT_EQ(SpecOfShare(job, 4).batch.micro_batch, 3u);
  EXPECT_EQ(SpecOfShare(job, 16).batch.sequences_per_step, 1u);
  job.batch.micro_batch = 0;
  EXPECT_EQ(SpecOfShare(job, 4).batch.micro_batch, 0u) << "left to the trainer";
}

TEST(IslandShares, ReplicasThatDifferInOneBitAreFoundByAllRanks) {
  const JobSpec job = TinyJob();
  const ModelLayout layout = MakeModelLayout(job.model, FragmentPattern::kStrided, 1);
  IslandOfThreads island(3);
  island.Run([&](TcpIsland& mine) {
    const SystemClock clock;
    TrainerOptions options;
    options.available_bytes = uint64_t{8} << 30;
    options.island = &mine;
    const auto trainer = Trainer::Create(job, layout, options, clock);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    InitialParameters(layout, 7, 0, (*trainer)->parameters().host());
    EXPECT_TRUE(CompareReplicas(mine, **trainer).ok());
    if (mine.rank() == 2) (*trainer)->parameters().host()[17] += 1e-3F;
    EXPECT_EQ(CompareReplicas(mine, **trainer).code(), absl::StatusCode::kInternal);
  });
}

}  // namespace
}  // namespace atl
