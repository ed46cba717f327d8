// SPDX-License-Identifier: Apache-2.0
// Workers with slow links in whole runs: rounds do not wait for them if others suffice.
#include <gtest/gtest.h>

#include "tests/sim/harness.h"

namespace atl {
namespace {

constexpr char kJob[] = "small";
constexpr Duration kStep = Milliseconds(100);
constexpr uint64_t kSlow = 5000, kFast = 10'000'000;  // bytes per second; a contribution has about 75 kB

// A period takes 6 s.
JobSpec Job(uint32_t least_workers) {
  JobSpec spec = SmallJob(kJob);
  spec.sync.inner_steps = 60;
  spec.workers.min = least_workers;
  spec.stop.inner_steps = 60 * 40;
  return spec;
}

void StartBoth(Harness& h, const JobSpec& spec) {
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(spec).ok());
  h.StartWorkerOfSpeed("near", kStep);
  h.StartWorkerOfSpeed("far", kStep);
  h.LimitUploads("far", kSlow);
}

bool Contributed(const RoundRecord& round, const std::string& worker) {
  for (const CommittedContribution& c : round.contributions) {
    if (c.header.worker.value == worker) return true;
  }
  return false;
}

std::string LinkOf(const Harness& h, const std::string& worker) {
  for (const WorkerView& view : h.ViewWorkers()) {
    if (view.worker.value == worker) return view.link_too_slow;
  }
  return "";
}

TEST(Admission, RoundsDoNotWaitForALinkThatCannotKeepUp) {
  Harness h;
  StartBoth(h, Job(1));
  ASSERT_TRUE(h.RunUntil([&] { return h.View(kJob)->not_waited_for == 1; }));
  EXPECT_NE(LinkOf(h, "far").find("the link of worker far carries "), std::string::npos) << LinkOf(h, "far");
  EXPECT_EQ(LinkOf(h, "near"), "");
  EXPECT_NE(h.View(kJob)->waiting_line.find("not waited for: the link of worker far"), std::string::npos);
  EXPECT_EQ(h.View(kJob)->training, 2u) << "it goes on";
  h.RunFor(Seconds(3));  // metrics follow within about a second
  EXPECT_NE(h.MetricsPage().find("atoll_workers{job=\"small\",state=\"not_waited_for\"} 1"), std::string::npos);
  // The open round may still wait; each later round takes a period.
  const uint64_t from = h.VersionOf(kJob).value + 1;
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= from; }));
  const Instant start = h.clock().Now();
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= from + 5; }));
  EXPECT_LT(h.clock().Now() - start, Seconds(40));
}

TEST(Admission, AWorkerIsAdmittedOnceItsLinkCarriesEnough) {
  Harness h;
  StartBoth(h, Job(1));
  ASSERT_TRUE(h.RunUntil([&] { return h.View(kJob)->not_waited_for == 1; }));
  h.LimitUploads("far", kFast);
  ASSERT_TRUE(h.RunUntil([&] { return h.View(kJob)->not_waited_for == 0; }));
  EXPECT_EQ(LinkOf(h, "far"), "");
  const uint64_t from = h.VersionOf(kJob).value + 2;
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= from + 2; }));
  const std::map<uint64_t, RoundRecord> rounds = h.CommittedRounds(kJob);
  EXPECT_TRUE(Contributed(rounds.at(from), "far"));
  EXPECT_TRUE(Contributed(rounds.at(from + 1), "far"));
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded) << h.View(kJob)->record.reason;
  const BalanceView balance = h.View(kJob)->balance;
  EXPECT_EQ(balance.unleased + balance.leased + balance.consumed + balance.abandoned, balance.dataset);
}

TEST(Admission, AJobThatNeedsASlowWorkerKeepsIt) {
  Harness h;
  JobSpec spec = Job(2);
  spec.stop.inner_steps = 60 * 8;
  StartBoth(h, spec);
  ASSERT_TRUE(h.RunUntil([&] { return !LinkOf(h, "far").empty(); }));
  EXPECT_EQ(h.View(kJob)->not_waited_for, 0u);
  EXPECT_NE(h.View(kJob)->waiting_line.find("the run is slow: the link of worker far"), std::string::npos)
      << h.View(kJob)->waiting_line;
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }, Seconds(3600)));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded) << h.View(kJob)->record.reason;
  for (const auto& [version, round] : h.CommittedRounds(kJob)) EXPECT_TRUE(Contributed(round, "far")) << version;
}

// The coordinator does not store the verdict; it follows again from the heartbeats.
TEST(Admission, SurvivesTheCoordinator) {
  Harness h;
  StartBoth(h, Job(1));
  ASSERT_TRUE(h.RunUntil([&] { return h.View(kJob)->not_waited_for == 1; }));
  h.KillCoordinator();
  h.RunFor(Seconds(1));
  h.StartCoordinator();
  EXPECT_TRUE(h.RunUntil([&] { return h.View(kJob).has_value() && h.View(kJob)->not_waited_for == 1; }));
}

}  // namespace
}  // namespace atl
