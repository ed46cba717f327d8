// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/queue.h"

#include <gtest/gtest.h>

#include "common/base/random.h"

namespace atl {
namespace {

WorkerId W(const std::string& name) { return WorkerId{name}; }
JobId J(const std::string& name) { return JobId{name}; }

TEST(Queue, OlderJobFirstAtTheSamePriority) {
  const auto moves =
      PlanMoves({{J("young"), 0, 2, 1, 9, false, {}}, {J("old"), 0, 1, 1, 9, false, {}}}, {{W("a"), {}}}, {});
  EXPECT_EQ(moves, (std::vector<Move>{{W("a"), {}, J("old")}}));
}

TEST(Queue, EveryJobGetsItsMinimumBeforeAnybodyGetsMore) {
  const auto moves = PlanMoves({{J("high"), 5, 2, 1, 9, false, {}}, {J("low"), 0, 1, 1, 9, false, {}}},
                               {{W("a"), {}}, {W("b"), {}}, {W("c"), {}}}, {});
  EXPECT_EQ(moves, (std::vector<Move>{{W("a"), {}, J("high")}, {W("b"), {}, J("low")}, {W("c"), {}, J("high")}}));
}

TEST(Queue, AJobThatCannotStartTakesNobody) {
  const auto moves = PlanMoves({{J("big"), 5, 1, 3, 9, false, {}}, {J("small"), 0, 2, 1, 9, false, {}}},
                               {{W("a"), {}}, {W("b"), {}}}, {});
  EXPECT_EQ(moves, (std::vector<Move>{{W("a"), {}, J("small")}, {W("b"), {}, J("small")}}));
}

TEST(Queue, ARunningJobBelowItsMinimumTakesWhatThereIs) {
  const auto moves = PlanMoves({{J("big"), 0, 1, 3, 9, true, {W("x")}}}, {{W("a"), {}}}, {});
  EXPECT_EQ(moves, (std::vector<Move>{{W("a"), {}, J("big")}}));
}

TEST(Queue, OnlyLowerPriorityGivesAndNeverBelowItsMinimum) {
  const auto moves = PlanMoves({{J("low"), 0, 1, 1, 9, true, {W("a"), W("b")}},
                                {J("even"), 3, 2, 1, 9, true, {W("c"), W("d")}},
                                {J("high"), 3, 3, 2, 9, true, {}}},
                               {}, {});
  EXPECT_EQ(moves, (std::vector<Move>{{W("b"), J("low"), J("high")}}));
}

TEST(Queue, AJobGivesNobodyAwayOfThoseThatItKeeps) {
  const QueuedJob closing{J("closing"), 0, 1, 1, 4, true, {W("a"), W("b"), W("c"), W("d")}, 4};
  EXPECT_TRUE(PlanMoves({closing, {J("high"), 5, 2, 2, 9, true, {W("e"), W("f")}}}, {}, {}).empty());
  // Nor if `high` could not reach its own minimum.
  EXPECT_TRUE(PlanMoves({closing, {J("high"), 5, 2, 2, 9, true, {W("e")}}}, {}, {}).empty());
  // It keeps `keep` workers and gives away the others.
  QueuedJob some = closing;
  some.keep = 3;
  EXPECT_EQ(PlanMoves({some, {J("high"), 5, 2, 2, 9, false, {}}}, {}, {}), std::vector<Move>{});
  EXPECT_EQ(PlanMoves({some, {J("high"), 5, 2, 1, 9, false, {}}}, {}, {}),
            (std::vector<Move>{{W("d"), J("closing"), J("high")}}));
}

// Found by seed 300088 of the simulation: each job needed two workers and had one of the two that
// existed.
TEST(Queue, OfJobsThatLackEachOthersWorkersTheFirstGetsThem) {
  const QueuedJob old{J("old"), 0, 1, 2, 9, true, {W("a")}}, young{J("young"), 0, 2, 2, 9, true, {W("b")}};
  EXPECT_EQ(PlanMoves({young, old}, {}, {}), (std::vector<Move>{{W("b"), J("young"), J("old")}}));
  // Not if the other job can run, or if one worker more would not suffice.
  QueuedJob runs = young;
  runs.min = 1;
  EXPECT_TRUE(PlanMoves({runs, old}, {}, {}).empty());
  QueuedJob large = old;
  large.min = 3;
  EXPECT_TRUE(PlanMoves({young, large}, {}, {}).empty());
  EXPECT_TRUE(PlanMoves({young, old}, {}, {{W("b"), {J("old")}}}).empty());
  // Free workers are assigned first.
  const auto moves = PlanMoves({young, old}, {{W("c"), {}}}, {});
  EXPECT_EQ(moves, (std::vector<Move>{{W("c"), {}, J("old")}}));
}

TEST(Queue, AJobThatEndsComesFirstAmongThoseThatCannotGoOn) {
  const QueuedJob ending{J("ending"), 0, 2, 2, 2, true, {W("b")}, 1};
  const QueuedJob runs{J("runs"), 0, 1, 2, 9, true, {W("a")}}, later{J("later"), 0, 3, 2, 2, true, {W("c")}, 1};
  EXPECT_EQ(PlanMoves({runs, ending}, {}, {}), (std::vector<Move>{{W("a"), J("runs"), J("ending")}}));
  EXPECT_EQ(PlanMoves({later, ending}, {}, {}), (std::vector<Move>{{W("c"), J("later"), J("ending")}}));
}

TEST(Queue, AJobThatWaitsStartsWithTheWorkersOfThoseBehindItThatCannotGoOn) {
  const QueuedJob waits{J("waits"), 0, 1, 2, 9, false, {}};
  const QueuedJob a{J("a"), 0, 2, 2, 9, true, {W("a")}}, b{J("b"), 0, 3, 2, 9, true, {W("b")}};
  EXPECT_EQ(PlanMoves({waits, a, b}, {}, {}),
            (std::vector<Move>{{W("b"), J("b"), J("waits")}, {W("a"), J("a"), J("waits")}}));
}

TEST(Queue, ExcessIsLetGoAndBarredJobsAreAvoided) {
  const std::map<WorkerId, std::set<JobId>> barred = {{W("b"), {J("other")}}};
  const auto moves =
      PlanMoves({{J("j"), 0, 1, 1, 1, true, {W("a"), W("b")}}, {J("other"), 0, 2, 1, 9, false, {}}}, {}, barred);
  EXPECT_EQ(moves, (std::vector<Move>{{W("b"), J("j"), {}}}));
}

TEST(Queue, APlanCarriedOutNeedsNoOther) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(StreamKey(seed, "queue"));
    std::vector<QueuedJob> jobs;
    std::vector<FreeWorker> free;
    for (uint64_t j = 0; j < 4; ++j) {
      const auto min = static_cast<uint32_t>(1 + rng.Below(3));
      jobs.push_back({J(std::string(1, static_cast<char>('j' + j))),
                      static_cast<int32_t>(rng.Below(3)),
                      j,
                      min,
                      min + static_cast<uint32_t>(rng.Below(3)),
                      false,
                      {}});
    }
    for (uint64_t w = 0; w < rng.Below(9); ++w) free.push_back({W(std::string(1, static_cast<char>('a' + w))), {}});
    const auto carry_out = [&] {
      for (const Move& move : PlanMoves(jobs, free, {})) {
        std::erase_if(free, [&](const FreeWorker& f) { return f.worker == move.worker; });
        for (QueuedJob& job : jobs) {
          if (job.job == move.from) std::erase(job.workers, move.worker);
          if (job.job == move.to) job.workers.push_back(move.worker);
        }
      }
    };
    carry_out();
    for (QueuedJob& job : jobs) {
      EXPECT_TRUE(job.workers.empty() || job.workers.size() >= job.min) << seed;
      EXPECT_LE(job.workers.size(), job.max) << seed;
      job.started = !job.workers.empty();
    }
    EXPECT_TRUE(PlanMoves(jobs, free, {}).empty()) << seed;
    for (QueuedJob& job : jobs) {  // some workers leave; and some jobs are about to end
      if (!job.workers.empty() && rng.Below(2) == 0) job.workers.pop_back();
      if (rng.Below(3) == 0) job.keep = static_cast<uint32_t>(job.workers.size());
    }
    carry_out();
    EXPECT_TRUE(PlanMoves(jobs, free, {}).empty()) << seed << ", of those that are left";
  }
}

}  // namespace
}  // namespace atl
