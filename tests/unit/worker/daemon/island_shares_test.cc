// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/island_shares.h"

#include <gtest/gtest.h>

#include "tests/unit/worker/island/island_of_threads.h"
#include "tests/unit/worker/train/tiny_job.h"

namespace atl {
namespace {

absl::StatusOr<std::unique_ptr<Trainer>> MakeTrainer(const JobSpec& job, const ModelLayout& layout, TcpIsland& mine,
                                                     const Clock& clock) {
  TrainerOptions options;
  options.available_bytes = uint64_t{8} << 30;
  options.island = &mine;
  auto trainer = Trainer::Create(job, layout, options, clock);
  if (trainer.ok()) InitialParameters(layout, 7, 0, (*trainer)->parameters().host());
  return trainer;
}

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
    const auto trainer = MakeTrainer(job, layout, mine, clock);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    EXPECT_TRUE(CompareReplicas(mine, **trainer).ok());
    if (mine.rank() == 2) (*trainer)->parameters().host()[17] += 1e-3F;
    EXPECT_EQ(CompareReplicas(mine, **trainer).code(), absl::StatusCode::kInternal);
  });
}

// The rank is lost between the step and the comparison that follows.
TEST(IslandShares, CompletedStepIsReportedDespiteALaterError) {
  constexpr uint32_t kLength = 33;
  JobSpec job = TinyJob();
  job.batch = {.sequences_per_step = 2, .micro_batch = 1};
  const ModelLayout layout = MakeModelLayout(job.model, FragmentPattern::kStrided, 1);
  IslandOfThreads island(2);
  island.Run(
      [&](TcpIsland& mine) {
        const SystemClock clock;
        const auto trainer = MakeTrainer(job, layout, mine, clock);
        ASSERT_TRUE(trainer.ok()) << trainer.status();
        (*trainer)->set_optimizer_steps(9);  // the tenth is compared
        const SampleBatch batch{.tokens = std::vector<int32_t>(2 * kLength, 1), .samples = 2};
        if (mine.rank() == 1) {
          for (;;) {
            const auto order = DecodeOrder(*mine.AwaitOrder());
            const auto* step = std::get_if<StepOrder>(&*order);
            if (step == nullptr) {  // receives the moments
              for (Arena* moments : {(*trainer)->first_moments(), (*trainer)->second_moments()})
                EXPECT_TRUE(mine.Broadcast(moments->memory(), nullptr).ok());
              continue;
            }
            EXPECT_TRUE((*trainer)->StepShare({step->tokens, step->sequences}, step->targets, 1e-3).ok());
            return;
          }
        }
        IslandShares shares({mine, mine}, layout);
        const auto taken = shares.Step(batch, 1e-3, **trainer);
        ASSERT_TRUE(taken.ok()) << taken.status();
        EXPECT_EQ((*trainer)->optimizer_steps(), 10u);
        EXPECT_TRUE(absl::IsUnavailable(shares.Step(batch, 1e-3, **trainer).status()));
        EXPECT_EQ((*trainer)->optimizer_steps(), 10u);
      },
      /*dying=*/true);
}

}  // namespace
}  // namespace atl
