// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/leases.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

WorkerRecord Someone(const std::string& name, uint64_t incarnation) {
  WorkerRecord r;
  r.worker = WorkerId{name};
  r.incarnation = Incarnation{incarnation};
  return r;
}

class Pool : public testing::Test {
 protected:
  LeasePool Make(uint64_t dataset) {
    PoolRecord record;
    record.job = JobId{"j"};
    return LeasePool(record, dataset);
  }
  const WorkerRecord a_ = Someone("a", 1), b_ = Someone("b", 2);
};

TEST_F(Pool, GrantsFromTheFrontierThenFromWhatCameBack) {
  LeasePool pool = Make(100);
  EXPECT_EQ(pool.Grant(LeaseId{1}, a_, 1, 60)->range, (SampleRange{0, 60}));
  EXPECT_EQ(pool.Grant(LeaseId{2}, b_, 1, 60)->range, (SampleRange{60, 100}));
  EXPECT_FALSE(pool.Grant(LeaseId{3}, b_, 2, 1).has_value());
  pool.Return(LeaseId{1}, 0);
  EXPECT_EQ(pool.Grant(LeaseId{4}, b_, 3, 10)->range, (SampleRange{0, 10}));
  pool.CheckInvariants();
  EXPECT_EQ(pool.Unleased(), 50u);
}

// data.assignment: shards: everything is free at the start, and each lease lies in its corpus.
TEST_F(Pool, GrantsInsideARangeAlone) {
  PoolRecord record;
  record.job = JobId{"j"};
  record.frontier = 100;
  record.returned = {{0, 100}};
  LeasePool pool(record, 100);
  const SampleRange first{0, 50}, second{50, 100};
  EXPECT_EQ(pool.Grant(LeaseId{1}, b_, 1, 20, second)->range, (SampleRange{50, 70}));
  EXPECT_EQ(pool.Grant(LeaseId{2}, a_, 1, 20, first)->range, (SampleRange{0, 20}));
  EXPECT_EQ(pool.Grant(LeaseId{3}, b_, 2, 100, second)->range, (SampleRange{70, 100}));
  EXPECT_FALSE(pool.Grant(LeaseId{4}, b_, 3, 1, second).has_value());
  pool.CheckInvariants();
  // A returned range next to the other corpus must not be granted as part of it.
  pool.Consume(LeaseId{1}, 60);
  pool.Return(LeaseId{1}, 60);
  EXPECT_EQ(pool.Grant(LeaseId{5}, a_, 2, 100, first)->range, (SampleRange{20, 50}));
  EXPECT_EQ(pool.Grant(LeaseId{6}, a_, 3, 100, second)->range, (SampleRange{60, 70}));
  pool.CheckInvariants();
  EXPECT_EQ(pool.Unleased(), 0u);
}

TEST_F(Pool, KeepsWhatAcceptedContributionsCover) {
  LeasePool pool = Make(1000);
  pool.Grant(LeaseId{1}, a_, 1, 100);
  pool.Consume(LeaseId{1}, 20);
  pool.Return(LeaseId{1}, 50);
  ASSERT_NE(pool.Find(LeaseId{1}), nullptr);
  EXPECT_TRUE(pool.Find(LeaseId{1})->revoked);
  EXPECT_EQ(pool.record().returned, (std::vector<SampleRange>{{50, 100}}));
  EXPECT_EQ(pool.Outstanding(WorkerId{"a"}), 0u);
  pool.Consume(LeaseId{1}, 50);
  EXPECT_EQ(pool.Find(LeaseId{1}), nullptr);
  EXPECT_EQ(pool.Balance().consumed, 50u);
  pool.CheckInvariants();
}

TEST_F(Pool, WhatIsLeftOutGoesBack) {
  LeasePool pool = Make(1000);
  pool.Grant(LeaseId{1}, a_, 1, 100);
  pool.Return(LeaseId{1}, 50);
  pool.Return(LeaseId{1}, 0);
  EXPECT_EQ(pool.Find(LeaseId{1}), nullptr);
  EXPECT_EQ(pool.record().returned, (std::vector<SampleRange>{{0, 100}}));
  pool.CheckInvariants();
}

TEST_F(Pool, ConsumesASampleOnce) {
  LeasePool pool = Make(1000);
  pool.Grant(LeaseId{1}, a_, 1, 100);
  pool.Consume(LeaseId{1}, 60);
  pool.Consume(LeaseId{1}, 30);
  pool.Consume(LeaseId{1}, 60);
  EXPECT_EQ(pool.Balance().consumed, 60u);
  pool.Consume(LeaseId{1}, 100);
  pool.Consume(LeaseId{1}, 100);
  EXPECT_EQ(pool.Balance().consumed, 100u);
}

TEST_F(Pool, JoinsNeighboursAndAbandonsWhatIsFree) {
  LeasePool pool = Make(1000);
  for (uint64_t i = 1; i <= 3; ++i) pool.Grant(LeaseId{i}, a_, i, 10);
  pool.Return(LeaseId{1}, 0);
  pool.Return(LeaseId{3}, 0);
  EXPECT_EQ(pool.record().returned.size(), 2u);
  EXPECT_EQ(pool.Abandon({5, 25}), 10u);
  EXPECT_EQ(pool.record().returned, (std::vector<SampleRange>{{0, 5}, {25, 30}}));
  pool.Return(LeaseId{2}, 0);
  EXPECT_EQ(pool.record().returned, (std::vector<SampleRange>{{0, 5}, {10, 20}, {25, 30}}));
  pool.CheckInvariants();
}

TEST_F(Pool, RollsBackToAFrontier) {
  LeasePool pool = Make(1000);
  pool.Grant(LeaseId{1}, a_, 1, 100);
  pool.Grant(LeaseId{2}, a_, 2, 100);
  pool.Consume(LeaseId{1}, 100);
  pool.Consume(LeaseId{2}, 150);
  pool.Return(LeaseId{2}, 0);
  pool.RollBack(120);
  EXPECT_EQ(pool.record().frontier, 120u);
  EXPECT_EQ(pool.Balance().consumed, 120u);
  EXPECT_TRUE(pool.record().returned.empty());
  pool.CheckInvariants();
}

TEST_F(Pool, KnowsWhoHoldsSamplesBeyondWhatIsConsumedOrAccepted) {
  LeasePool pool = Make(1000);
  pool.Grant(LeaseId{1}, a_, 1, 100);
  pool.Grant(LeaseId{2}, a_, 2, 100);
  pool.Grant(LeaseId{3}, b_, 1, 100);
  const WorkerId a = a_.worker, b = b_.worker;
  EXPECT_EQ(pool.Holders({}), (std::set<WorkerId>{a, b}));
  EXPECT_EQ(pool.Holders({{LeaseId{1}, 100}, {LeaseId{2}, 199}, {LeaseId{3}, 300}}), (std::set<WorkerId>{a}));
  pool.Consume(LeaseId{1}, 100);
  EXPECT_EQ(pool.Holders({{LeaseId{2}, 200}}), (std::set<WorkerId>{b}));
  pool.Return(LeaseId{3}, 250);  // earlier samples are accepted
  EXPECT_TRUE(pool.Holders({{LeaseId{2}, 200}}).empty());
}

TEST_F(Pool, AnEndlessDatasetBalances) {
  LeasePool pool = Make(UINT64_MAX);
  pool.Grant(LeaseId{1}, a_, 1, UINT64_MAX / 2);
  pool.Consume(LeaseId{1}, 7);
  pool.CheckInvariants();
  EXPECT_EQ(pool.Unleased(), UINT64_MAX - UINT64_MAX / 2);
}

TEST_F(Pool, TellsEveryChangeOnce) {
  LeasePool pool = Make(100);
  pool.Grant(LeaseId{1}, a_, 1, 10);
  std::vector<LedgerRecord> records;
  pool.TakeChanges(records);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(std::get<LeaseRecord>(records[0]).range.end, 10u);
  EXPECT_EQ(std::get<PoolRecord>(records[1]).frontier, 10u);
  records.clear();
  pool.TakeChanges(records);
  EXPECT_TRUE(records.empty());
  pool.Return(LeaseId{1}, 0);
  pool.TakeChanges(records);
  EXPECT_EQ(std::get<LeaseClosed>(records[0]).lease, LeaseId{1});
}

}  // namespace
}  // namespace atl
