// SPDX-License-Identifier: Apache-2.0
#include "worker/island/gradient_buckets.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/unit/worker/island/island_of_threads.h"

namespace atl {
namespace {

// Records its exchanges; each value becomes its negative.
class NotingIsland final : public Island {
 public:
  uint32_t rank() const override { return 0; }
  uint32_t world() const override { return 2; }
  absl::Status AllReduceMean(std::span<float> values, void*) override {
    if (!failure.ok()) return failure;
    first.push_back(values.empty() ? nullptr : values.data());
    sizes.push_back(values.size());
    for (float& v : values) v = -v;
    ++reduced;
    return absl::OkStatus();
  }
  absl::Status AllReduceSum(std::span<double>) override { return absl::OkStatus(); }
  absl::Status Broadcast(std::span<float>, void*) override { return absl::OkStatus(); }

  std::vector<const float*> first;
  std::vector<size_t> sizes;
  std::atomic<int> reduced{0};
  absl::Status failure;
};

// An arena of 100: the head at 90, layers at 40 and 0, an embedding at 70.
const std::vector<GradientRange> kRanges = {{90, 10}, {60, 10}, {50, 10}, {40, 10}, {20, 20}, {0, 20}, {70, 20}};

TEST(GradientBuckets, JoinNeighboursUpToASizeInTheOrderOfReadiness) {
  NotingIsland island;
  std::vector<float> arena(100, 1);
  const GradientBuckets buckets(island, arena, kRanges, 25);
  ASSERT_EQ(buckets.buckets().size(), 4u);
  EXPECT_EQ(buckets.buckets()[1].offset, 40u);
  EXPECT_EQ(buckets.buckets()[1].elements, 30u);
  EXPECT_EQ(buckets.buckets()[2].offset, 0u);
  EXPECT_EQ(buckets.buckets()[2].elements, 40u);
  EXPECT_EQ(buckets.buckets()[3].offset, 70u);
}

TEST(GradientBuckets, AreReducedOnceInOneOrderHoweverTheyBecomeReady) {
  NotingIsland island;
  std::vector<float> arena(100, 1);
  GradientBuckets buckets(island, arena, kRanges, 25);
  for (int step = 0; step < 3; ++step) {
    island.sizes.clear();
    buckets.Begin();
    for (size_t i = 0; i < kRanges.size(); ++i) buckets.Ready(kRanges[(i * 3 + static_cast<size_t>(step)) % 7].offset);
    ASSERT_TRUE(buckets.Finish().ok());
    EXPECT_EQ(island.sizes, (std::vector<size_t>{10, 30, 40, 20}));
    EXPECT_EQ(arena, std::vector<float>(100, step % 2 == 0 ? -1.0F : 1.0F));
  }
}

TEST(GradientBuckets, FinishIncludesUnreportedRanges) {
  NotingIsland island;
  std::vector<float> arena(100, 1);
  GradientBuckets buckets(island, arena, kRanges, 25);
  buckets.Begin();
  ASSERT_TRUE(buckets.Finish().ok());
  EXPECT_EQ(arena, std::vector<float>(100, -1));
}

TEST(GradientBuckets, HaltSaysWhetherAnythingWasSent) {
  NotingIsland island;
  std::vector<float> arena(100, 1);
  GradientBuckets buckets(island, arena, kRanges, 25);
  buckets.Begin();
  buckets.Ready(70);  // the last bucket: it waits for the others
  EXPECT_TRUE(buckets.Halt());
  buckets.Begin();
  buckets.Ready(90);
  while (island.reduced == 0) std::this_thread::yield();
  EXPECT_FALSE(buckets.Halt());
  EXPECT_EQ(island.sizes, std::vector<size_t>{10});
}

// A step fails before its last backward pass: the previous pass has already sent its gradients.
TEST(GradientBuckets, HaltSaysNothingOfAPassThatIsFinished) {
  NotingIsland island;
  std::vector<float> arena(100, 1);
  GradientBuckets buckets(island, arena, kRanges, 25);
  buckets.Begin();
  ASSERT_TRUE(buckets.Finish().ok());
  EXPECT_TRUE(buckets.Halt());
  buckets.Begin();
  ASSERT_TRUE(buckets.Finish().ok());
  EXPECT_EQ(island.sizes.size(), 8u);
}

TEST(GradientBuckets, TheFirstErrorIsTheAnswer) {
  NotingIsland island;
  island.failure = absl::UnavailableError("rank 1 ended");
  std::vector<float> arena(100, 1);
  GradientBuckets buckets(island, arena, kRanges, 25);
  buckets.Begin();
  EXPECT_EQ(buckets.Finish(), island.failure);
}

TEST(GradientBuckets, GoOverAnIslandWithRanksReadyInDifferentOrders) {
  IslandOfThreads island(3);
  island.Run([](TcpIsland& mine) {
    std::vector<float> arena(100);
    GradientBuckets buckets(mine, arena, kRanges, 25);
    for (int step = 0; step < 20; ++step) {
      for (size_t i = 0; i < arena.size(); ++i) arena[i] = static_cast<float>(i) * static_cast<float>(mine.rank());
      buckets.Begin();
      for (size_t i = 0; i < kRanges.size(); ++i) buckets.Ready(kRanges[(i + mine.rank()) % 7].offset);
      ASSERT_TRUE(buckets.Finish().ok());
      for (size_t i = 0; i < arena.size(); ++i) EXPECT_NEAR(arena[i], static_cast<float>(i), 1e-5);
    }
  });
}

}  // namespace
}  // namespace atl
