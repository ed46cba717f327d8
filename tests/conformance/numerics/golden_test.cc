// SPDX-License-Identifier: Apache-2.0
// Golden vectors: a hand-computed series of outer steps, and torchft's table for overlapped, mixed,
// fragmented synchronisation.
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/numerics/loop.h"

namespace atl::numerics {
namespace {

// theta = 1, g = 0.1 each time, lr 0.7, mu 0.9, in PyTorch's Nesterov form: 0.867, 0.6773, 0.43657.
TEST(Nesterov, FollowsTheHandMadeSeries) {
  const ModelLayout layout = LayoutOf({1});
  const LoopOptions options = {.outer = {.kind = OuterKind::kNesterov, .learning_rate = 0.7, .momentum = 0.9}};
  const std::vector<float> start = {1};
  Loop loop(layout, options, start, 1);
  for (const double wanted : {0.867, 0.6773, 0.43657}) {
    loop.Step([](size_t, uint64_t, std::span<float> local) { local[0] -= 0.1f; });
    EXPECT_NEAR(static_cast<double>(loop.outer(0)[0]), wanted, 3e-7);
    EXPECT_EQ(loop.aggregator().State(FragmentIndex{0}).public_copy[0], loop.outer(0)[0]);
    EXPECT_EQ(loop.local(0)[0], loop.outer(0)[0]);
  }
}

// Two scalar layers at 1, gradient 2 and inner learning rate 1, outer SGD with learning rate 2, H =
// 6, P = 2, two workers. Local values after steps 3, 6, 9, 12 and the outer copies after 9
// (torchft, fixtures of diloco_regression_test.py).
struct Row {
  uint32_t overlap_steps;
  double mix;
  float layer0_at_3, layer1_at_6, layer0_at_9, layer1_at_12, outer0_after_9, outer1_after_9;
};

class Streaming : public testing::TestWithParam<Row> {};

TEST_P(Streaming, MatchesTorchft) {
  const Row row = GetParam();
  const LoopOptions options = {.inner_steps = 6,
                               .overlap_steps = row.overlap_steps,
                               .mix = row.mix,
                               .outer = {.kind = OuterKind::kSgd, .learning_rate = 2}};
  const std::vector<float> start = {1, 1};
  Loop loop(LayoutOf({1, 1}), options, start, 2);
  const auto until = [&](uint64_t step) {
    while (loop.step() < step) {
      loop.Step([](size_t, uint64_t, std::span<float> local) {
        for (float& x : local) x -= 2;
      });
    }
  };
  until(3);
  EXPECT_EQ(loop.local(0)[0], row.layer0_at_3);
  EXPECT_EQ(loop.local(1)[0], row.layer0_at_3);
  until(6);
  EXPECT_EQ(loop.local(0)[1], row.layer1_at_6);
  EXPECT_EQ(loop.local(1)[1], row.layer1_at_6);
  until(9);
  EXPECT_EQ(loop.local(0)[0], row.layer0_at_9);
  EXPECT_EQ(loop.outer(1)[0], row.outer0_after_9);
  EXPECT_EQ(loop.outer(1)[1], row.outer1_after_9);
  until(12);
  EXPECT_EQ(loop.local(0)[1], row.layer1_at_12);
  EXPECT_EQ(loop.local(1)[1], row.layer1_at_12);
}

INSTANTIATE_TEST_SUITE_P(
    SixRows, Streaming,
    testing::Values(Row{0, 0.0, -11, -23, -35, -47, -35, -23}, Row{0, 0.5, -8, -17, -24.5f, -32, -29, -23},
                    Row{0, 1.0, -5, -11, -17, -23, -23, -23}, Row{1, 0.0, -7, -19, -27, -39, -27, -19},
                    Row{1, 0.5, -6, -15, -21.5f, -29, -25, -19}, Row{1, 1.0, -5, -11, -17, -23, -23, -19}));

}  // namespace
}  // namespace atl::numerics
