// SPDX-License-Identifier: Apache-2.0
// A coordinator that dies right after the commit of a rollback resumes from the checkpoint.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sim/harness.h"

namespace atl {
namespace {

constexpr char kJob[] = "small";

TEST(Rollback, SurvivesTheDeathOfTheCoordinator) {
  for (const bool loaded : {false, true}) {
    SCOPED_TRACE(loaded ? "after the parameters were back" : "before the parameters were back");
    Harness h;
    JobSpec spec = SmallJob(kJob);
    spec.checkpoint.every_rounds = 2;
    h.StartCoordinator();
    ASSERT_TRUE(h.Submit(spec).ok());
    h.StartWorker("a");
    h.StartWorker("b");
    ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 4; }));
    ASSERT_TRUE(h.Control(kJob, JobAction::kPause).ok());
    h.RunFor(Seconds(30));
    const CheckpointRecord checkpoint = h.View(kJob)->checkpoints.front();
    const auto committed = [&h] {
      return !h.ledger_disk().transactions.empty() &&
             std::any_of(h.ledger_disk().transactions.back().begin(), h.ledger_disk().transactions.back().end(),
                         [](const LedgerRecord& record) { return std::holds_alternative<RollbackRecord>(record); });
    };
    h.AskWithoutWaiting(JobRolledBack{.job = JobId{kJob}, .checkpoint_step = checkpoint.step, .wall_nanos = 1});
    ASSERT_TRUE(h.RunUntil(committed, Seconds(60)));
    if (loaded) h.RunFor(Seconds(5));
    h.KillCoordinator();
    h.StartCoordinator();
    h.RunFor(Seconds(5));
    EXPECT_EQ(h.VersionOf(kJob), checkpoint.versions[0]);
    EXPECT_EQ(h.HashOf(kJob), checkpoint.hashes[0]);
    ASSERT_TRUE(h.Control(kJob, JobAction::kResume).ok());
    ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
    EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded) << h.View(kJob)->record.reason;
  }
}

}  // namespace
}  // namespace atl
