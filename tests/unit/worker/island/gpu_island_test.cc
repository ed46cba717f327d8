// SPDX-License-Identifier: Apache-2.0
#include "worker/island/gpu_island.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "tests/unit/worker/island/causes.h"
#include "tests/unit/worker/island/device_of_threads.h"
#include "tests/unit/worker/island/island_of_threads.h"
#include "worker/island/gradient_buckets.h"

namespace atl {
namespace {

// Runs `body` on every rank once its devices have met.
void RunWithDevices(IslandOfThreads& island, uint32_t world, Interconnect& interconnect,
                    const std::function<void(GpuIsland&, TcpIsland&)>& body, bool dying = false) {
  std::atomic<uint32_t> joined{0};
  island.Run(
      [&](TcpIsland& ranks) {
        DeviceOfThreads device(interconnect);
        const auto gpus = GpuIsland::Join(ranks, device, island.clock);
        ASSERT_TRUE(gpus.ok()) << gpus.status();
        ASSERT_NE(*gpus, nullptr);
        for (++joined; joined < world;) std::this_thread::yield();
        body(**gpus, ranks);
      },
      dying);
}

class GpuIslands : public testing::TestWithParam<uint32_t> {};

TEST_P(GpuIslands, ExchangesAreUnderWayUntilTheyAreSettled) {
  const uint32_t world = GetParam();
  IslandOfThreads island(world);
  Interconnect interconnect(world);
  RunWithDevices(island, world, interconnect, [&](GpuIsland& mine, TcpIsland&) {
    EXPECT_EQ(mine.world(), world);
    std::vector<std::vector<float>> buckets;
    for (size_t i = 0; i < 5; ++i) buckets.emplace_back(10 + i, static_cast<float>(mine.rank() + i));
    for (auto& bucket : buckets) ASSERT_TRUE(mine.AllReduceMean(bucket, nullptr).ok());
    ASSERT_TRUE(mine.Settle().ok());
    for (size_t i = 0; i < buckets.size(); ++i) {
      const float mean = static_cast<float>(world - 1) / 2 + static_cast<float>(i);
      EXPECT_EQ(buckets[i], std::vector<float>(10 + i, mean)) << "bucket " << i << " at rank " << mine.rank();
    }
    std::vector<float> values(7, static_cast<float>(mine.rank()) + 0.5F);
    ASSERT_TRUE(mine.Broadcast(values, nullptr).ok());
    EXPECT_EQ(values, std::vector<float>(7, 0.5F));
    std::vector<double> sums = {1, static_cast<double>(mine.rank())};
    ASSERT_TRUE(mine.AllReduceSum(sums).ok());
    EXPECT_EQ(sums[0], world);
  });
  for (uint32_t rank = 0; rank < world; ++rank) EXPECT_TRUE(interconnect.left(rank));
}

TEST_P(GpuIslands, BucketsAreExchangedWhileOthersAreMade) {
  const uint32_t world = GetParam();
  IslandOfThreads island(world);
  Interconnect interconnect(world);
  RunWithDevices(island, world, interconnect, [&](GpuIsland& mine, TcpIsland&) {
    std::vector<float> gradients(64);
    GradientBuckets buckets(mine, gradients, {{32, 32}, {16, 16}, {0, 16}}, 16);
    for (size_t step = 0; step < 3; ++step) {
      for (size_t i = 0; i < gradients.size(); ++i) gradients[i] = static_cast<float>(mine.rank() * i + step);
      buckets.Begin();
      for (const uint64_t offset : {uint64_t{32}, uint64_t{16}, uint64_t{0}}) buckets.Ready(offset);
      const absl::Status status = buckets.Finish();
      ASSERT_TRUE(status.ok()) << status;
      for (size_t i = 0; i < gradients.size(); ++i) {
        EXPECT_FLOAT_EQ(gradients[i], static_cast<float>(i * (world - 1)) / 2 + static_cast<float>(step)) << i;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, GpuIslands, testing::Values(2, 3, 4));

TEST(GpuIsland, IsNoneWhereNoRankHasAGpu) {
  IslandOfThreads island(2);
  island.Run([&](TcpIsland& ranks) {
    const auto device = OpenCpuDevice();
    const auto gpus = GpuIsland::Join(ranks, *device, island.clock);
    ASSERT_TRUE(gpus.ok()) << gpus.status();
    EXPECT_EQ(*gpus, nullptr);
  });
}

TEST(GpuIsland, IsRefusedWhereSomeRanksHaveNone) {
  IslandOfThreads island(3);
  Interconnect interconnect(3);
  island.Run([&](TcpIsland& ranks) {
    const auto cpu = OpenCpuDevice();
    DeviceOfThreads gpu(interconnect);
    const auto gpus = GpuIsland::Join(ranks, ranks.rank() == 1 ? static_cast<Device&>(*cpu) : gpu, island.clock);
    EXPECT_EQ(gpus.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(gpus.status().message().find("of the 3 ranks of the island 2 have a GPU"), std::string::npos)
        << gpus.status();
  });
}

// A rank is lost before, or after, it has begun the exchange in which the other ranks are.
TEST(BrokenGpuIsland, EndedRankIsNamedAndExchangesAbort) {
  for (const uint32_t dead : {0U, 1U, 2U}) {
    IslandOfThreads island(3);
    Interconnect interconnect(3);
    Causes causes;
    RunWithDevices(
        island, 3, interconnect,
        [&](GpuIsland& mine, TcpIsland& ranks) {
          if (mine.rank() == dead) return;
          std::vector<float> values(100);
          ASSERT_TRUE(mine.AllReduceMean(values, nullptr).ok()) << "it is only under way";
          const absl::Status status = mine.Settle();
          causes.Add(mine.rank(), status);
          EXPECT_TRUE(interconnect.left(mine.rank())) << "what was under way has ended";
          EXPECT_EQ(mine.AllReduceMean(values, nullptr), status) << "it stays broken";
          EXPECT_EQ(mine.Settle(), status);
          EXPECT_EQ(ranks.state(), status);
        },
        /*dying=*/true);
    causes.ExpectAll(
        2, dead == 0 ? "rank 0, which leads the island, ended" : absl::StrCat("rank ", dead, " of the island ended"));
  }
}

TEST(BrokenGpuIsland, DeviceFailureReachesAllRanks) {
  for (const uint32_t failing : {0U, 2U}) {
    IslandOfThreads island(3);
    Interconnect interconnect(3);
    Causes causes;
    RunWithDevices(island, 3, interconnect, [&](GpuIsland& mine, TcpIsland&) {
      if (mine.rank() == failing) interconnect.FailAt(failing, "unhandled system error");
      std::vector<float> values(100);
      absl::Status status = mine.AllReduceMean(values, nullptr);
      if (status.ok()) status = mine.Settle();
      causes.Add(mine.rank(), status);
    });
    causes.ExpectAll(3, absl::StrCat("rank ", failing, ": unhandled system error"));
  }
}

TEST(BrokenGpuIsland, FailedRankIsReportedToRanksWaitingForItsDevice) {
  for (const uint32_t failing : {0U, 2U}) {
    IslandOfThreads island(3);
    Interconnect interconnect(3);
    Causes causes;
    RunWithDevices(island, 3, interconnect, [&](GpuIsland& mine, TcpIsland& ranks) {
      std::vector<float> values(100);
      if (mine.rank() == failing) {
        ranks.Break("out of memory");
        return causes.Add(mine.rank(), mine.AllReduceMean(values, nullptr));
      }
      ASSERT_TRUE(mine.AllReduceMean(values, nullptr).ok());
      causes.Add(mine.rank(), mine.Settle());
    });
    causes.ExpectAll(3, absl::StrCat("rank ", failing, " of the island: out of memory"));
  }
}

TEST(BrokenGpuIsland, StallingRankIsReportedAfterTheTimeout) {
  for (const uint32_t stalled : {0U, 1U}) {
    IslandOfThreads island(2);
    Interconnect interconnect(2);
    Causes causes;
    std::atomic<bool> told{false};
    RunWithDevices(island, 2, interconnect, [&](GpuIsland& mine, TcpIsland&) {
      if (mine.rank() == stalled) {
        for (; !told; std::this_thread::yield()) island.clock.Advance(Seconds(1));
        return;
      }
      std::vector<float> values(100);
      ASSERT_TRUE(mine.AllReduceMean(values, nullptr).ok());
      causes.Add(mine.rank(), mine.Settle());
      told = true;
    });
    causes.ExpectAll(1, " for exchanges of 400 bytes between devices");
    if (stalled == 1) causes.ExpectAll(1, "rank 1 of the island does not answer");
  }
}

TEST(GpuIsland, RankWithoutAShareWaitsWhileRankZeroIsAlive) {
  IslandOfThreads island(2);
  Interconnect interconnect(2);
  std::atomic<int> looks{0};  // before rank 1 waits
  RunWithDevices(island, 2, interconnect, [&](GpuIsland& mine, TcpIsland& ranks) {
    if (mine.rank() == 1) {
      mine.OnlyWait(true);
      looks = island.clock.looks();
    } else {
      while (looks == 0) std::this_thread::yield();
      island.clock.AwaitLooks(looks, kEntering);
      StayAway(ranks, island.clock, ranks.Silence() * 2);
    }
    std::vector<float> values(100, 1.0F);
    EXPECT_TRUE(mine.AllReduceMean(values, nullptr).ok());
    const absl::Status settled = mine.Settle();
    EXPECT_TRUE(settled.ok()) << "rank " << mine.rank() << ": " << settled;
  });
}

TEST(BrokenGpuIsland, ARankWithoutAShareDoesNotWaitForARankZeroThatSaysNothing) {
  IslandOfThreads island(2);
  Interconnect interconnect(2);
  Causes causes;
  std::atomic<bool> told{false};
  RunWithDevices(island, 2, interconnect, [&](GpuIsland& mine, TcpIsland&) {
    if (mine.rank() == 0) {
      for (; !told; std::this_thread::yield()) island.clock.Advance(Seconds(1));
      return;
    }
    mine.OnlyWait(true);
    std::vector<float> values(100);
    ASSERT_TRUE(mine.AllReduceMean(values, nullptr).ok());
    causes.Add(mine.rank(), mine.Settle());
    told = true;
  });
  causes.ExpectAll(
      1, "for exchanges of 400 bytes between devices; rank 0, which leads the island, has sent no sign of life for ");
}

// As when the library waits for a device that waits for the lost rank.
TEST(BrokenGpuIsland, HangingGroupIsAbandoned) {
  IslandOfThreads island(2);
  Interconnect interconnect(2);
  island.Run(
      [&](TcpIsland& ranks) {
        DeviceOfThreads device(interconnect);
        const auto gpus = GpuIsland::Join(ranks, device, island.clock, Milliseconds(1));
        ASSERT_TRUE(gpus.ok()) << gpus.status();
        if (ranks.rank() == 1) return;
        std::vector<float> values(100);
        ASSERT_TRUE((*gpus)->AllReduceMean(values, nullptr).ok());
        while (!interconnect.left(1)) std::this_thread::yield();
        interconnect.Hold();
        EXPECT_EQ((*gpus)->Settle().code(), absl::StatusCode::kUnavailable);
        EXPECT_FALSE(interconnect.left(0));
      },
      /*dying=*/true);
  interconnect.LetGo();
  while (!interconnect.left(0)) std::this_thread::yield();
}

// The owner's thread may wait for its own device, which waits for the lost rank.
TEST(BrokenGpuIsland, ExchangeEndsWithoutItsOwner) {
  IslandOfThreads island(2);
  Interconnect interconnect(2);
  RunWithDevices(
      island, 2, interconnect,
      [&](GpuIsland& mine, TcpIsland&) {
        if (mine.rank() == 1) return;
        std::vector<float> values(100);
        ASSERT_TRUE(mine.AllReduceMean(values, nullptr).ok());
        while (!interconnect.left(0)) std::this_thread::yield();
        EXPECT_EQ(mine.Settle().code(), absl::StatusCode::kUnavailable);
      },
      /*dying=*/true);
}

}  // namespace
}  // namespace atl
