// SPDX-License-Identifier: Apache-2.0
// Jobs with a finite dataset (data.max_epochs). Every sample is trained and merged before the job
// ends, wherever the newest leases are, and no round waits for a worker that has nothing left to
// train.
#include <gtest/gtest.h>

#include "tests/sim/harness.h"

namespace atl {
namespace {

constexpr char kJob[] = "small";

struct Setting {
  uint32_t fragments = 1, overlap_steps = 0, least_workers = 1;
  std::vector<Duration> steps;  // of each worker
};

JobSpec WithoutStopStep(const Setting& setting) {
  JobSpec spec = SmallJob(kJob);
  if (setting.fragments > 1) {
    spec.sync.pattern = FragmentPattern::kStrided;
    spec.sync.layers_per_fragment = 2;
  }
  spec.sync.overlap_steps = setting.overlap_steps;
  spec.workers.min = setting.least_workers;
  spec.stop.inner_steps = 100'000;
  spec.evaluation.every_rounds = 0;
  return spec;
}

void Start(Harness& h, const Setting& setting, uint64_t dataset) {
  h.StartCoordinator();
  ASSERT_EQ(h.Submit(WithoutStopStep(setting), dataset), absl::OkStatus());
  for (size_t i = 0; i < setting.steps.size(); ++i) {
    h.StartWorkerOfSpeed(std::string(1, static_cast<char>('a' + i)), setting.steps[i]);
  }
}

std::string LinesOf(const Harness& h) {
  std::string lines = h.View(kJob)->waiting_line;
  for (const WorkerView& view : h.ViewWorkers()) {
    absl::StrAppend(&lines, "; ", view.worker.value, " at ", view.last.step, " waits for ", view.last.waiting_for);
  }
  return lines;
}

void ExpectAllMerged(const Harness& h) {
  const std::optional<JobView> view = h.View(kJob);
  EXPECT_EQ(view->record.state, JobState::kSucceeded) << view->record.reason;
  EXPECT_EQ(view->balance.consumed, view->balance.dataset);
  EXPECT_EQ(view->balance.unleased + view->balance.leased + view->balance.abandoned, 0u);
}

class Dataset : public testing::TestWithParam<Setting> {};

// 4 samples a step, 10 steps a period. The data ends in the middle of a period, of a step, and of
// one worker's samples.
TEST_P(Dataset, IsTrainedWholeBeforeTheJobEnds) {
  for (uint64_t dataset = 90; dataset < 900; dataset += 53) {
    SCOPED_TRACE(dataset);
    Harness h(dataset);
    Start(h, GetParam(), dataset);
    const Instant since = h.clock().Now();
    ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); })) << LinesOf(h);
    ExpectAllMerged(h);
    EXPECT_EQ(h.factory().trained().size(), dataset);
    Duration slowest{};
    for (const Duration step : GetParam().steps) slowest = std::max(slowest, step);
    EXPECT_LT(h.clock().Now() - since, slowest * static_cast<int64_t>(dataset / 4) + Seconds(9)) << "one worker alone";
  }
}

// A worker that returns continues; its remaining samples are leased to the other worker. Shortly
// before the end, and after one worker has no samples left.
TEST_P(Dataset, IsTrainedWholeAmidFaults) {
  constexpr uint64_t kSamples = 600;
  for (int64_t moment = 0; moment < 30; ++moment) {
    SCOPED_TRACE(moment);
    Harness h(static_cast<uint64_t>(moment) + 1);
    Start(h, GetParam(), kSamples);
    ASSERT_TRUE(h.RunUntil([&] { return h.View(kJob)->balance.unleased < 200; }));
    h.RunFor(Milliseconds(61 * (moment / 5)));
    const std::string last(1, static_cast<char>('a' + GetParam().steps.size() - 1));
    switch (moment % 5) {
      case 0: h.KillWorker("a"), h.StartWorker("a"); break;
      case 1: h.KillWorker(last), h.RunFor(Seconds(30)), h.StartWorker(last); break;
      case 2: h.BreakStream("a"), h.BreakStream(last); break;
      case 3: h.KillCoordinator(), h.RunFor(Milliseconds(700)), h.StartCoordinator(); break;
      default: h.LeaveWorker("a"), h.StartWorker("z"); break;
    }
    ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); })) << LinesOf(h);
    ExpectAllMerged(h);
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, Dataset,
                         testing::Values(Setting{1, 0, 1, {Milliseconds(50)}},
                                         Setting{1, 0, 1, {Milliseconds(50), Milliseconds(50)}},
                                         Setting{1, 0, 2, {Milliseconds(50), Milliseconds(70)}},
                                         Setting{3, 0, 2, {Milliseconds(50), Milliseconds(50)}},
                                         Setting{3, 2, 1, {Milliseconds(50), Milliseconds(120), Milliseconds(51)}}));

}  // namespace
}  // namespace atl
