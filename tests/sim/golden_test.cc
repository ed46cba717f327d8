// SPDX-License-Identifier: Apache-2.0
// torchft's table for overlapped, mixed, fragmented synchronisation (fixtures of
// diloco_regression_test.py), played by whole workers and a whole coordinator: their cores decide
// what is sent, awaited and applied, and when. tests/conformance/numerics/golden_test.cc checks the
// arithmetic alone against the same table.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "common/plan/model_layout.h"
#include "tests/sim/harness.h"

namespace atl {
namespace {

constexpr char kJob[] = "small";

// Two fragments, each parameter decreases by 2 per step, outer SGD with learning rate 2, H = 6, two
// workers. Start value 1: local values after steps 3, 6, 9 and 12, outer values after step 9.
struct Row {
  uint32_t overlap_steps;
  double mix;
  float first_at_3, second_at_6, first_at_9, second_at_12, outer_first_after_9, outer_second_after_9;
};

JobSpec Golden(const Row& row) {
  JobSpec spec = SmallJob(kJob);
  spec.model.layers = 1;
  spec.sync.pattern = FragmentPattern::kSequential;
  spec.sync.layers_per_fragment = 1;
  spec.sync.inner_steps = 6;
  spec.sync.overlap_steps = row.overlap_steps;
  spec.sync.mix = row.mix;
  spec.outer = {.kind = OuterKind::kSgd, .learning_rate = 2, .momentum = 0};
  spec.workers = {.min = 2, .max = 2, .planned = 2};
  spec.screens.norm = ScreenMode::kReport;
  spec.evaluation.every_rounds = 1;
  spec.stop.inner_steps = 18;
  return spec;
}

class WholeStreaming : public testing::TestWithParam<Row> {};

TEST_P(WholeStreaming, MatchesTorchft) {
  const Row row = GetParam();
  const JobSpec spec = Golden(row);
  const ModelLayout layout = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
  ASSERT_EQ(layout.fragments.size(), 2u);
  // By worker: the parameters before each step.
  std::map<const float*, std::vector<std::vector<float>>> found;
  Harness h;
  std::vector<std::vector<float>> outer;  // of every evaluation
  h.factory().SetArithmetic({.step =
                                 [&found](std::span<float> local) {
                                   found[local.data()].emplace_back(local.begin(), local.end());
                                   for (float& x : local) x -= 2;
                                 },
                             .evaluate =
                                 [&outer](std::span<const float> parameters) {
                                   outer.emplace_back(parameters.begin(), parameters.end());
                                   return 1.0;
                                 }});
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(spec).ok());
  h.StartWorker("a");
  h.StartWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  ASSERT_EQ(h.View(kJob)->record.state, JobState::kSucceeded) << h.View(kJob)->record.reason;

  ASSERT_EQ(found.size(), 2u) << "a worker prepared its job twice, or not at all";
  const std::vector<float> start = found.begin()->second.front();
  const auto expect = [&](const std::vector<float>& values, size_t fragment, float wanted, const std::string& when) {
    const FragmentInfo& part = layout.fragments[fragment];
    for (uint64_t i = part.offset; i < part.offset + part.elements; ++i)
      ASSERT_NEAR(values[i], start[i] - 1 + wanted, 1e-4) << "fragment " << fragment << ", " << when;
  };
  for (const auto& [worker, steps] : found) {
    ASSERT_EQ(steps.size(), 18u);
    expect(steps[3], 0, row.first_at_3, "local after 3");
    expect(steps[6], 1, row.second_at_6, "local after 6");
    expect(steps[9], 0, row.first_at_9, "local after 9");
    expect(steps[12], 1, row.second_at_12, "local after 12");
  }
  // Each outer step of fragment 0 is evaluated. The evaluation of step 9 is the second after the
  // initial one.
  ASSERT_GE(outer.size(), 3u);
  expect(outer[2], 0, row.outer_first_after_9, "outer after 9");
  expect(outer[2], 1, row.outer_second_after_9, "outer after 9");
}

INSTANTIATE_TEST_SUITE_P(
    SixRows, WholeStreaming,
    testing::Values(Row{0, 0.0, -11, -23, -35, -47, -35, -23}, Row{0, 0.5, -8, -17, -24.5f, -32, -29, -23},
                    Row{0, 1.0, -5, -11, -17, -23, -23, -23}, Row{1, 0.0, -7, -19, -27, -39, -27, -19},
                    Row{1, 0.5, -6, -15, -21.5f, -29, -25, -19}, Row{1, 1.0, -5, -11, -17, -23, -23, -19}));

}  // namespace
}  // namespace atl
