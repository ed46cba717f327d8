// SPDX-License-Identifier: Apache-2.0
// Displayed times never go back, whatever the wall clock does.
#include <gtest/gtest.h>

#include "common/plan/ledger_fold.h"
#include "coordinator/core/core.h"

namespace atl {
namespace {

JobSubmitted Submission(const std::string& name, int64_t wall_nanos) {
  JobSubmitted e;
  e.spec.name = name;
  e.spec.stop.inner_steps = 10;
  e.fragments = 1;
  e.stop_step = 10;
  e.dataset_samples = 100;
  e.wall_nanos = wall_nanos;
  return e;
}

void ExpectInOrder(const Core& core, const std::string& name, Instant now) {
  const JobRecord record = core.ViewJob(JobId{name}, now)->record;
  EXPECT_EQ(record.state, JobState::kCancelled);
  EXPECT_GT(record.create_wall_nanos, 0);
  EXPECT_LE(record.create_wall_nanos, record.end_wall_nanos);
}

TEST(Times, AJobDoesNotEndBeforeItWasMade) {
  const Instant now = Instant{} + Seconds(100);
  const CoreOptions options{Seconds(2), Seconds(20)};
  LedgerFold ledger;
  Core core(options, ledger.State(BootNumber{1}), now);
  ledger.Apply(core.Start(now).records);
  // The caller read its clock slightly later than the engine.
  ledger.Apply(core.Step(Submission("one", 5'000), now, 4'000).records);
  ledger.Apply(core.Step(JobControlled{.job = JobId{"one"}, .wall_nanos = 4'500}, now, 4'600).records);
  ExpectInOrder(core, "one", now);
  // The clock is set back across a restart.
  ledger.Apply(core.Step(Submission("two", 9'000), now, 9'000).records);
  Core next(options, ledger.State(BootNumber{2}), now);
  ledger.Apply(next.Start(now).records);
  ledger.Apply(next.Step(JobControlled{.job = JobId{"two"}, .wall_nanos = 1'000}, now, 1'000).records);
  ExpectInOrder(next, "two", now);
}

}  // namespace
}  // namespace atl
