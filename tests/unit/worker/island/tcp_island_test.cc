// SPDX-License-Identifier: Apache-2.0
#include "worker/island/tcp_island.h"

#include <gtest/gtest.h>

#include <cstring>
#include <future>

#include "common/base/random.h"
#include "tests/unit/worker/island/causes.h"
#include "tests/unit/worker/island/island_of_threads.h"
#include "worker/island/spoke.h"

namespace atl {
namespace {

std::vector<float> ValuesOf(uint32_t rank, size_t count) {
  Rng rng(rank + 1);
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(rng.Uniform() - 0.5) * 3.0F;
  return values;
}

// As island.h specifies: added in rank order, then multiplied.
std::vector<float> MeanOf(uint32_t world, size_t count) {
  std::vector<float> sum = ValuesOf(0, count);
  for (uint32_t rank = 1; rank < world; ++rank) {
    const std::vector<float> values = ValuesOf(rank, count);
    for (size_t i = 0; i < count; ++i) sum[i] = sum[i] + values[i];
  }
  for (float& v : sum) v *= 1.0F / static_cast<float>(world);
  return sum;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

class AllReduce : public testing::TestWithParam<uint32_t> {};

TEST_P(AllReduce, AddsInRankOrderAndGivesTheSameBitsToAll) {
  const uint32_t world = GetParam();
  IslandOfThreads island(world);
  island.Run([world](TcpIsland& mine) {
    // Empty, less than a piece, odd, a piece of the scratch and one more, many pieces.
    for (const size_t count : {size_t{0}, size_t{1}, size_t{3}, size_t{1001}, size_t{65537}, size_t{1'000'003}}) {
      std::vector<float> values = ValuesOf(mine.rank(), count);
      const absl::Status status = mine.AllReduceMean(values, nullptr);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_TRUE(SameBits(values, MeanOf(world, count))) << "rank " << mine.rank() << " of " << world << ", " << count;
    }
  });
}

TEST_P(AllReduce, SumsDoublesAndBroadcastsRankZero) {
  const uint32_t world = GetParam();
  IslandOfThreads island(world);
  island.Run([world](TcpIsland& mine) {
    std::vector<double> sums = {1e16, static_cast<double>(mine.rank()), 1.0};
    ASSERT_TRUE(mine.AllReduceSum(sums).ok());
    EXPECT_EQ(sums[1], world * (world - 1) / 2);
    EXPECT_EQ(sums[2], world);
    for (const size_t count : {size_t{0}, size_t{1}, size_t{300'001}}) {
      std::vector<float> values = ValuesOf(mine.rank(), count);
      ASSERT_TRUE(mine.Broadcast(values, nullptr).ok());
      EXPECT_TRUE(SameBits(values, ValuesOf(0, count)));
    }
  });
}

TEST_P(AllReduce, CarriesOrdersAndAnswers) {
  IslandOfThreads island(GetParam());
  island.Run([](TcpIsland& mine) {
    if (mine.rank() > 0) {
      for (const std::string expected : {"one", "two"}) {
        const auto order = mine.AwaitOrder();
        ASSERT_TRUE(order.ok()) << order.status();
        EXPECT_EQ(*order, expected);
      }
      EXPECT_TRUE(mine.Answer(absl::StrCat("rank ", mine.rank())).ok());
      return;
    }
    ASSERT_TRUE(mine.Order("one").ok());
    ASSERT_TRUE(mine.Order("two").ok());
    const auto answers = mine.Answers(Seconds(60));
    ASSERT_TRUE(answers.ok()) << answers.status();
    for (uint32_t rank = 1; rank < mine.world(); ++rank) EXPECT_EQ((*answers)[rank - 1], absl::StrCat("rank ", rank));
  });
}

// Rank 0 has finished a broadcast and sends the next order, while the last rank still waits for
// bytes that its neighbour has not forwarded.
TEST_P(AllReduce, AnOrderMayComeWhileABroadcastIsWaitedFor) {
  const uint32_t world = GetParam();
  IslandOfThreads island(world);
  std::atomic<uint32_t> ordered{0};
  island.Run([&](TcpIsland& mine) {
    for (uint32_t time = 1; time <= 50; ++time) {
      const bool between = mine.rank() > 0 && mine.rank() + 1 < world;
      while (between && ordered < time) std::this_thread::yield();
      std::vector<float> values = ValuesOf(mine.rank(), 100);
      const absl::Status status = mine.Broadcast(values, nullptr);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_TRUE(mine.rank() == 0 ? mine.Order("next").ok() : mine.AwaitOrder().ok());
      if (mine.rank() == 0) ++ordered;
      std::vector<double> sum = {1};
      EXPECT_TRUE(mine.AllReduceSum(sum).ok());  // the last rank finishes first, and waits again
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, AllReduce, testing::Values(2, 3, 4));

TEST(BrokenIsland, ARankThatEndsIsNamedToAllOthers) {
  for (const uint32_t dead : {1U, 2U, 3U}) {
    IslandOfThreads island(4);
    Causes causes;
    std::atomic<int> through{0};
    island.Run(
        [&](TcpIsland& mine) {
          std::vector<float> values(100'000);
          ASSERT_TRUE(mine.AllReduceMean(values, nullptr).ok());
          for (++through; through < 4;) std::this_thread::yield();
          if (mine.rank() == dead) return;
          const absl::Status status = mine.AllReduceMean(values, nullptr);
          causes.Add(mine.rank(), status);
          EXPECT_EQ(mine.AllReduceMean(values, nullptr), status) << "it stays broken";
        },
        /*dying=*/true);
    causes.ExpectAll(3, absl::StrCat("rank ", dead, " of the island ended"));
  }
}

TEST(BrokenIsland, TheEndOfRankZeroEndsTheFollowers) {
  IslandOfThreads island(3);
  Causes causes;
  std::atomic<int> through{0};
  island.Run(
      [&](TcpIsland& mine) {
        std::vector<float> values(10);
        ASSERT_TRUE(mine.AllReduceMean(values, nullptr).ok());
        for (++through; through < 3;) std::this_thread::yield();
        if (mine.rank() == 0) return;
        if (mine.rank() == 1) return causes.Add(1, mine.AwaitOrder().status());
        causes.Add(2, mine.AllReduceMean(values, nullptr));
      },
      /*dying=*/true);
  causes.ExpectAll(2, "rank 0, which leads the island, ended");
}

// Every read of the clock advances it: deadlines pass after a number of reads, on any machine.
class SteppingClock final : public Clock {
 public:
  Instant Now() const override { return {now_ += Seconds(2).ns}; }
  int64_t WallNanos() const override { return 0; }

 private:
  mutable std::atomic<int64_t> now_{0};
};

class Stall : public testing::TestWithParam<uint32_t> {};

TEST_P(Stall, IsReportedAfterTheDeadline) {
  const uint32_t stalled = GetParam();
  IslandOfThreads island(2);
  island.limits.patience = Seconds(4);
  Causes causes;
  std::atomic<bool> told{false};
  std::vector<std::jthread> ranks;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      auto mesh = island.Meet(island.Place(rank));
      ASSERT_TRUE(mesh.ok()) << mesh.status();
      const SteppingClock steps;
      TcpIsland mine(*std::move(mesh), island.limits, steps);
      std::vector<float> values(1000);
      if (rank == stalled) {
        while (!told) std::this_thread::yield();
        return;
      }
      causes.Add(rank, mine.AllReduceMean(values, nullptr));
      told = true;
    });
  }
  ranks.clear();
  causes.ExpectAll(1, absl::StrCat(" s for rank ", stalled, " in all-reduce 1 of 1000 values"));
  if (stalled == 1) causes.ExpectAll(1, "rank 1 of the island does not answer");
}

INSTANTIATE_TEST_SUITE_P(Ranks, Stall, testing::Values(0, 1));

// Rank 0 joins the last of `exchanges` later than rank 1, by `late`. Rank 1 calls `before` ahead of
// the first.
void ExpectPatience(int exchanges, Duration late, const std::function<void(TcpIsland& waiting, SharedClock&)>& before) {
  IslandOfThreads island(2);
  std::atomic<bool> begun{false};
  std::atomic<int> looks{0};  // of the clock, before rank 1 joins the last exchange; 0: not yet
  island.Run([&](TcpIsland& mine) {
    if (mine.rank() == 1) before(mine, island.clock);
    if (mine.rank() == 1) begun = true;
    while (!begun) std::this_thread::yield();
    for (int left = exchanges; left > 0; --left) {
      if (left == 1 && mine.rank() == 1) looks = island.clock.looks();
      if (left == 1 && mine.rank() == 0) {
        while (looks == 0) std::this_thread::yield();
        island.clock.AwaitLooks(looks, kEntering);
        island.clock.Advance(late);
        island.clock.AwaitLooks(island.clock.looks(), kLooking);
      }
      std::vector<float> values(1000, 1.0F);
      const absl::Status status = mine.AllReduceMean(values, nullptr);
      ASSERT_TRUE(status.ok()) << "rank " << mine.rank() << ": " << status;
    }
  });
}

TEST(Silence, RankWithoutAShareWaitsWhileRankZeroIsAlive) {
  IslandOfThreads island(2);
  std::atomic<bool> waits{false};
  island.Run([&](TcpIsland& mine) {
    std::vector<float> values(1000, 1.0F);
    if (mine.rank() == 1) {
      mine.OnlyWait(true);
      waits = true;
    } else {
      while (!waits) std::this_thread::yield();
      island.clock.AwaitLooks(island.clock.looks(), kEntering);
      StayAway(mine, island.clock, mine.Silence() * 2);
    }
    const absl::Status status = mine.AllReduceMean(values, nullptr);
    EXPECT_TRUE(status.ok()) << "rank " << mine.rank() << ": " << status;
  });
}

TEST(Silence, WaitForAnOrderLastsWhileRankZeroIsAlive) {
  IslandOfThreads island(2);
  island.Run([&](TcpIsland& mine) {
    if (mine.rank() == 1) {
      const auto order = mine.AwaitOrder();
      EXPECT_TRUE(order.ok()) << order.status();
      return;
    }
    island.clock.AwaitLooks(island.clock.looks(), kEntering);
    StayAway(mine, island.clock, mine.Silence() * 2);
    EXPECT_TRUE(mine.Order("at last").ok());
  });
}

// Rank 0's connections are open but it sends nothing, like a stopped process.
absl::Status WhatAFollowerSaysOfASilentLeader(const std::function<absl::Status(TcpIsland&)>& wait) {
  IslandOfThreads island(2);
  absl::Status said;
  std::atomic<bool> over{false};
  island.Run([&](TcpIsland& mine) {
    if (mine.rank() == 1) {
      said = wait(mine);
      over = true;
      return;
    }
    island.clock.AwaitLooks(island.clock.looks(), kEntering);
    for (; !over; std::this_thread::yield()) island.clock.Advance(Seconds(1));
  });
  return said;
}

TEST(Silence, SilentRankZeroEndsTheWaitForAnOrder) {
  const absl::Status said =
      WhatAFollowerSaysOfASilentLeader([](TcpIsland& mine) { return mine.AwaitOrder().status(); });
  EXPECT_TRUE(absl::IsUnavailable(said)) << said;
  EXPECT_NE(said.message().find(" s for an order; rank 0, which leads the island, has sent no sign of life for "),
            std::string::npos)
      << said;
  EXPECT_NE(said.message().find("due every 10 s; 120 s are allowed"), std::string::npos) << said;
}

TEST(Silence, SilentRankZeroEndsTheWaitWithoutAShare) {
  const absl::Status said = WhatAFollowerSaysOfASilentLeader([](TcpIsland& mine) {
    mine.OnlyWait(true);
    std::vector<float> values(1000);
    return mine.AllReduceMean(values, nullptr);
  });
  EXPECT_TRUE(absl::IsUnavailable(said)) << said;
  EXPECT_NE(
      said.message().find(
          "for rank 0 in all-reduce 1 of 1000 values; rank 0, which leads the island, has sent no sign of life for "),
      std::string::npos)
      << said;
}

// While rank 0 gives orders and ends the island, another of its threads reports that it is alive.
TEST(Silence, KeepAlivesDoNotDelayOrders) {
  IslandOfThreads island(3);
  island.limits.patience = Seconds(1'000'000'000);  // the clock advances
  Causes causes;
  island.Run([&](TcpIsland& mine) {
    std::vector<float> values(1000);
    if (mine.rank() > 0) {
      for (int i = 0; i < 200; ++i) {
        const auto order = mine.AwaitOrder();
        ASSERT_TRUE(order.ok()) << order.status();
        EXPECT_EQ(*order, std::string(10'000, 'o'));
        ASSERT_TRUE(mine.AllReduceMean(values, nullptr).ok());
      }
      return causes.Add(mine.rank(), mine.AwaitOrder().status());
    }
    const std::jthread says([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        island.clock.Advance(TcpIsland::kHereEvery);
        mine.SayHere();
        std::this_thread::yield();
      }
    });
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(mine.Order(std::string(10'000, 'o')).ok());
      const absl::Status status = mine.AllReduceMean(values, nullptr);
      ASSERT_TRUE(status.ok()) << status;
    }
    mine.Break("enough");
  });
  causes.ExpectAll(2, "rank 0 of the island: enough");
}

// Buckets of one step: the patience in a later exchange still counts the work before the first one.
TEST(Patience, CountsTheWorkOfTheWholeStepAtEveryExchange) {
  ExpectPatience(2, Seconds(300), [](TcpIsland&, SharedClock& clock) { clock.Advance(Seconds(100)); });
}

TEST(Patience, ARankWithoutAShareSaysThatItWaitsWhenItIsAsked) {
  IslandOfThreads island(2);
  auto follower = std::async(std::launch::async, [&island] {
    TcpIsland mine(*island.Meet(island.Place(1)), island.limits, island.clock);
    mine.OnlyWait(true);
    std::vector<float> values(1000);
    return mine.AllReduceMean(values, nullptr);
  });
  const auto leader = island.Meet(island.Place(0));
  ASSERT_TRUE(leader.ok()) << leader.status();
  const Deadline never{island.clock, kNever};
  ASSERT_TRUE(SendFrame(leader->spokes[1], FrameKind::kQuestion, "", never).ok());
  const auto answer = ReceiveFrame(leader->spokes[1], never);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->kind, FrameKind::kWaiting);
  EXPECT_NE(answer->payload.find("for rank 0 in all-reduce 1"), std::string::npos) << answer->payload;
  ASSERT_TRUE(SendFrame(leader->spokes[1], FrameKind::kVerdict, "somebody else", never).ok());
  EXPECT_EQ(follower.get(), absl::UnavailableError("somebody else"));
}

TEST(Cause, IsTheRankThatReportsNoCause) {
  IslandOfThreads island(3);
  std::vector<std::future<absl::StatusOr<Mesh>>> met;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    met.push_back(std::async(std::launch::async, [&island, rank] { return island.Meet(island.Place(rank)); }));
  }
  std::vector<Mesh> meshes;
  for (auto& one : met) meshes.push_back(*one.get());
  const SteppingClock steps;
  const Deadline never{steps, kNever};
  ASSERT_TRUE(SendFrame(meshes[1].spokes[0], FrameKind::kWaiting, "for rank 2", never).ok());
  const std::string cause = FindCause(meshes[0], "seen by rank 0", Seconds(20), steps);
  EXPECT_EQ(cause, "rank 2 of the island does not answer (seen by rank 0)");
  EXPECT_EQ(ReceiveFrame(meshes[1].spokes[0], never)->kind, FrameKind::kQuestion);
  EXPECT_EQ(ReceiveFrame(meshes[1].spokes[0], never)->payload, cause);
}

TEST(BrokenIsland, FailureOfOneRankReachesAll) {
  for (const uint32_t failing : {0U, 2U}) {
    IslandOfThreads island(3);
    Causes causes;
    island.Run([&](TcpIsland& mine) {
      std::vector<float> values(100);
      if (mine.rank() == failing) mine.Break("out of memory");
      causes.Add(mine.rank(), mine.AllReduceMean(values, nullptr));
    });
    causes.ExpectAll(3, absl::StrCat("rank ", failing, " of the island: out of memory"));
  }
}

TEST(BrokenIsland, RanksAtDifferentExchangesFindOut) {
  IslandOfThreads island(2);
  Causes causes;
  island.Run([&](TcpIsland& mine) {
    std::vector<float> values(100 + mine.rank());
    causes.Add(mine.rank(), mine.AllReduceMean(values, nullptr));
  });
  causes.ExpectAll(2, "");
}

TEST(BrokenIsland, RankZeroSeesAnEndWithoutAnExchange) {
  IslandOfThreads island(3);
  std::atomic<bool> gone{false};
  island.Run(
      [&](TcpIsland& mine) {
        if (mine.rank() == 0) {
          EXPECT_TRUE(mine.Order("").ok());
          while (mine.Look().ok()) std::this_thread::yield();
          EXPECT_NE(mine.Look().message().find("rank 2"), std::string::npos);
          gone = true;
          return;
        }
        EXPECT_TRUE(mine.AwaitOrder().ok());
        while (mine.rank() == 1 && !gone) std::this_thread::yield();
      },
      /*dying=*/true);
}

}  // namespace
}  // namespace atl
