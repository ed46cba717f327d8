// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/audited_runs.h"

#include <gtest/gtest.h>

namespace atl {

JobSpec KeptJob(Harness& h) {
  StoreManifest(h);
  JobSpec spec = SmallJob(kAuditedJob);
  spec.checkpoint.keep_contributions = true;
  return spec;
}

void BeginRun(Harness& h, const JobSpec& spec) {
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(spec).ok());
  h.StartWorker("a");
  h.StartWorker("b");
}

void RunToItsEnd(Harness& h, const JobSpec& spec) {
  ASSERT_NO_FATAL_FAILURE(BeginRun(h, spec));
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kAuditedJob); })) << h.View(kAuditedJob)->waiting_line;
  h.KillCoordinator();
}

void ExpectWell(const audit::Report& report) { EXPECT_TRUE(report.ok()) << report.Text(); }

void ExpectAllEqual(const audit::Report& replay, uint64_t rounds) {
  ExpectWell(replay);
  EXPECT_EQ(replay.count("rounds held"), rounds) << replay.Text();
  EXPECT_EQ(replay.count("rounds equal"), rounds) << replay.Text();
}

}  // namespace atl
