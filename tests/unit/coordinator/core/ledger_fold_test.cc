// SPDX-License-Identifier: Apache-2.0
#include "common/plan/ledger_fold.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

JobRecord Job() {
  JobRecord r;
  r.job = JobId{"j"};
  r.sequence = 1;
  r.fragments = 2;
  return r;
}

RoundRecord Reached(uint64_t epoch, uint32_t fragment, uint64_t version, uint64_t clock) {
  RoundRecord r;
  r.job = JobId{"j"};
  r.epoch = epoch;
  r.reached = {FragmentIndex{fragment}, Version{version}};
  r.hash = {fragment, version};
  r.clock_step = clock;
  r.tokens = 10;
  ContributionHeader h;
  h.worker = WorkerId{"a"};
  h.target = {FragmentIndex{fragment}, Version{version - 1}};
  r.contributions.push_back({h, 1, 1});
  return r;
}

TEST(LedgerFold, RoundsMoveHeadsClockAndCounts) {
  LedgerFold fold;
  PoolRecord pool;
  pool.job = JobId{"j"};
  fold.Apply({pool, Job()});  // within a transaction the order is free
  fold.Apply({Reached(0, 0, 1, 50), Reached(0, 1, 1, 60)});
  const RecoveredState state = fold.State(BootNumber{3});
  ASSERT_EQ(state.jobs.size(), 1u);
  const RecoveredJob& job = state.jobs[0];
  EXPECT_EQ(job.heads[1].version, Version{1});
  EXPECT_EQ(job.heads[1].hash, (Digest{1, 1}));
  EXPECT_EQ(job.clock_step, 60u);
  EXPECT_EQ(job.rounds_committed, 2u);
  EXPECT_EQ(job.tokens_committed, 10u);
  EXPECT_EQ(job.committed.size(), 2u);
  EXPECT_EQ(state.boot, BootNumber{3});
}

TEST(LedgerFold, ARollbackTakesHeadsAndClockFromTheCheckpoint) {
  LedgerFold fold;
  fold.Apply({Job(), Reached(0, 0, 1, 50), Reached(0, 1, 1, 60)});
  CheckpointRecord c;
  c.job = JobId{"j"};
  c.step = 60;
  c.versions = {Version{1}, Version{1}};
  c.hashes = {Digest{7, 7}, Digest{8, 8}};
  c.complete = true;
  fold.Apply({c});
  fold.Apply({Reached(0, 0, 2, 150)});
  fold.Apply({RollbackRecord{JobId{"j"}, 1, c.versions}});
  const RecoveredJob job = fold.State(BootNumber{1}).jobs[0];
  EXPECT_EQ(job.heads[0].version, Version{1});
  EXPECT_EQ(job.heads[0].hash, (Digest{7, 7}));
  EXPECT_EQ(job.clock_step, 60u);
  EXPECT_TRUE(job.committed.empty());
  fold.Apply({Reached(1, 0, 2, 160)});
  EXPECT_EQ(fold.State(BootNumber{1}).jobs[0].rounds_committed, 4u);
}

TEST(LedgerFold, ARollbackUndoesTheEvaluationsOfWhatIsGivenUp) {
  LedgerFold fold;
  fold.Apply({Job(), Reached(0, 0, 1, 50), Reached(0, 1, 1, 60), Reached(0, 0, 2, 150)});
  const auto evaluated = [&](uint64_t number, uint64_t first, uint64_t second) {
    EvaluationRecord r;
    r.job = JobId{"j"};
    r.evaluation = number;
    r.versions = {Version{first}, Version{second}};
    fold.Apply({r});
  };
  const auto numbers = [&] {
    std::string text;
    const RecoveredState state = fold.State(BootNumber{1});
    for (const EvaluationRecord& r : state.jobs[0].evaluations) text += std::to_string(r.evaluation) + " ";
    return text;
  };
  evaluated(0, 0, 0);
  evaluated(1, 1, 0);
  evaluated(2, 1, 1);
  evaluated(3, 2, 1);
  fold.Apply({RollbackRecord{JobId{"j"}, 1, {Version{1}, Version{0}}}});
  EXPECT_EQ(numbers(), "0 1 ") << "the other fragment of number 2 is given up";
  fold.Apply({Reached(1, 0, 2, 150)});
  evaluated(4, 2, 0);
  EXPECT_EQ(numbers(), "0 1 4 ");
  fold.Apply({RollbackRecord{JobId{"j"}, 2, {Version{2}, Version{0}}}});
  EXPECT_EQ(numbers(), "0 1 4 ");
}

// The time is for people: a rollback does not make an earlier round the newest.
TEST(LedgerFold, TheTimeOfTheNewestRoundIsThatOfTheLastCommit) {
  LedgerFold fold;
  const auto round = [](uint64_t epoch, uint32_t fragment, uint64_t version, int64_t wall_nanos) {
    RoundRecord r = Reached(epoch, fragment, version, 50);
    r.wall_nanos = wall_nanos;
    return r;
  };
  const auto newest = [&fold] { return fold.State(BootNumber{1}).jobs[0].round_wall_nanos; };
  fold.Apply({Job()});
  EXPECT_EQ(newest(), 0);
  fold.Apply({round(0, 0, 1, 500), round(0, 1, 1, 700)});
  EXPECT_EQ(newest(), 700);
  fold.Apply({RollbackRecord{JobId{"j"}, 1, {Version{0}, Version{0}}}});
  EXPECT_EQ(newest(), 700);
  fold.Apply({round(1, 0, 1, 600)});
  EXPECT_EQ(newest(), 600) << "the clock was set back";
}

TEST(LedgerFold, UpsertsReplaceAndClosingDeletes) {
  LedgerFold fold;
  LeaseRecord lease;
  lease.lease = LeaseId{4};
  lease.range = {0, 10};
  fold.Apply({lease});
  lease.consumed_to = 5;
  fold.Apply({lease});
  ASSERT_EQ(fold.State({}).leases.size(), 1u);
  EXPECT_EQ(fold.State({}).leases[0].consumed_to, 5u);
  fold.Apply({LeaseClosed{LeaseId{4}}});
  EXPECT_TRUE(fold.State({}).leases.empty());
}

TEST(LedgerFoldDeath, AVersionThatComesTwiceStopsTheProcess) {
  LedgerFold fold;
  fold.Apply({Job(), Reached(0, 0, 1, 50)});
  EXPECT_DEATH(fold.Apply({Reached(0, 0, 1, 50)}), "I6");
}

}  // namespace
}  // namespace atl
