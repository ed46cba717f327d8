// SPDX-License-Identifier: Apache-2.0
// Checkpoint records of older programs do not store whether they are kept for good: what a start
// decides.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/plan/ledger_fold.h"
#include "coordinator/core/core.h"

namespace atl {
namespace {

const JobId kJob{"j"};
const CoreOptions kOptions{Seconds(2), Seconds(20)};
const Instant kNow{1'000'000'000};
constexpr uint64_t kBegun = 14;  // step of the checkpoint that was never finished

JobRecord Job(uint32_t every_rounds, uint32_t keep_every, uint32_t keep_last) {
  JobRecord job;
  job.job = kJob;
  job.spec.name = kJob.value;
  job.spec.checkpoint.every_rounds = every_rounds;
  job.spec.checkpoint.keep_every = keep_every;
  job.spec.checkpoint.keep_last = keep_last;
  job.state = JobState::kRunning;
  job.fragments = 1;
  job.dataset_samples = 100;
  return job;
}

// A checkpoint at version and step `at`.
CheckpointRecord Undecided(uint64_t at, bool complete) {
  CheckpointRecord c;
  c.job = kJob;
  c.step = at;
  c.versions = {Version{at}};
  c.complete = complete;
  c.kept = Kept::kUndecided;
  return c;
}

std::string Text(const std::vector<LedgerRecord>& records) {
  std::string text;
  for (const LedgerRecord& record : records) {
    const auto* const c = std::get_if<CheckpointRecord>(&record);
    if (c != nullptr) absl::StrAppend(&text, c->step, c->kept == Kept::kForGood ? " for good, " : ", ");
  }
  return text;
}

// The checkpoint records that a start writes; expects that the next start writes none.
std::string DecidedBy(LedgerFold& ledger) {
  Core core(kOptions, ledger.State(BootNumber{1}), kNow);
  const Effects effects = core.Start(kNow);
  for (const Task& task : effects.tasks) {
    const auto* const drop = std::get_if<DropCheckpoint>(&task);
    EXPECT_TRUE(drop == nullptr || drop->step == kBegun) << "complete ones stay";
  }
  ledger.Apply(effects.records);
  Core next(kOptions, ledger.State(BootNumber{2}), kNow);
  EXPECT_EQ(Text(next.Start(kNow).records), "");
  return Text(effects.records);
}

TEST(Retention, AStartDecidesByTheRuleOfThatMoment) {
  LedgerFold ledger;
  ledger.Apply({Job(2, 2, 3)});
  for (const uint64_t at : {4u, 8u, 10u, 12u}) ledger.Apply({Undecided(at, true)});
  ledger.Apply({Undecided(kBegun, false)});
  EXPECT_EQ(DecidedBy(ledger), "4 for good, 8 for good, 10, 12 for good, 14, ");
}

TEST(Retention, WhatAnEarlierRuleHasLeftStays) {
  LedgerFold ledger;
  ledger.Apply({Job(0, 0, 2)});
  for (const uint64_t at : {4u, 8u, 10u, 12u}) ledger.Apply({Undecided(at, true)});
  ledger.Apply({Undecided(kBegun, false)});
  EXPECT_EQ(DecidedBy(ledger), "4 for good, 8 for good, 10, 12, 14, ") << "all but the newest two that are complete";
}

TEST(Retention, OfAnEndedJobNothingIsDecided) {
  LedgerFold ledger;
  JobRecord job = Job(2, 2, 1);
  job.state = JobState::kSucceeded;
  ledger.Apply({job, Undecided(4, true), Undecided(6, true)});
  EXPECT_EQ(DecidedBy(ledger), "");
}

}  // namespace
}  // namespace atl
