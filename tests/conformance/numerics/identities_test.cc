// SPDX-License-Identifier: Apache-2.0
// Identities that hold for any model: averaging, plain training, one worker for many.
#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/random.h"
#include "gtest/gtest.h"
#include "tests/conformance/numerics/loop.h"

namespace atl::numerics {
namespace {

constexpr size_t kElements = 700;
constexpr uint32_t kPeriod = 5;

std::vector<float> Start() {
  std::vector<float> start(kElements);
  for (size_t i = 0; i < start.size(); ++i) start[i] = NormalAt(1, i);
  return start;
}

// A gradient step on a quadratic around a moving target: depends on the parameters, so that errors
// would spread.
void Descend(uint64_t stream, uint64_t step, std::span<float> local) {
  for (size_t i = 0; i < local.size(); ++i) {
    const float gradient = local[i] - NormalAt(StreamKey(stream, "batch"), step * kElements + i);
    local[i] = local[i] - 0.05f * gradient;
  }
}

Loop::InnerStep SameBatches() {
  return [](size_t, uint64_t step, std::span<float> local) { Descend(0, step, local); };
}

Loop::InnerStep OwnBatches() {
  return [](size_t worker, uint64_t step, std::span<float> local) { Descend(worker, step, local); };
}

const LoopOptions kPlain = {.inner_steps = kPeriod, .outer = {.kind = OuterKind::kSgd, .learning_rate = 1}};
const LoopOptions kDiLoCo = {.inner_steps = kPeriod,
                             .outer = {.kind = OuterKind::kNesterov, .learning_rate = 0.7, .momentum = 0.9}};

// FedAvg (1602.05629): with outer SGD at rate 1 the new parameters are the weighted mean of the
// workers' parameters.
TEST(FedAvg, OuterSgdAtOneIsTheMeanOfTheWorkers) {
  const std::vector<float> start = Start();
  const size_t workers = 3;
  std::vector<std::vector<float>> own(workers, start);
  for (size_t w = 0; w < workers; ++w) {
    for (uint64_t step = 1; step <= kPeriod; ++step) Descend(w, step, own[w]);
  }
  Loop loop(LayoutOf({300, 400}), {.inner_steps = kPeriod, .outer = {.kind = OuterKind::kSgd, .learning_rate = 1}},
            start, workers);
  // P = 2 sends fragment 0 in mid-period, so the mean is computed for the fragment that ends with
  // the period.
  for (uint64_t step = 1; step <= kPeriod; ++step) loop.Step(OwnBatches());
  for (size_t i = 300; i < kElements; ++i) {
    double mean = 0, size = std::fabs(static_cast<double>(start[i]));
    for (size_t w = 0; w < workers; ++w) {
      mean += static_cast<double>(own[w][i]) / static_cast<double>(workers);
      size = std::max(size, std::fabs(static_cast<double>(own[w][i])));
    }
    // k differences, k products, k - 1 sums and one subtraction, each within 2^-24 of values below
    // 2 * size.
    EXPECT_NEAR(static_cast<double>(loop.outer(0)[i]), mean, (3 * workers + 2) * 2 * size * 0x1p-24) << i;
  }
}

// One worker with outer SGD at rate 1: a sync gives fl(outer - fl(outer - local)), which differs
// from local by the rounding of one subtraction and one addition: at most 2^-24 * |outer - local| +
// 2^-24 * |result|.
TEST(OneWorker, OuterSgdAtOneIsPlainTrainingUpToTwoRoundingsASync) {
  const std::vector<float> start = Start();
  Loop loop(LayoutOf({kElements}), kPlain, start, 1);
  std::vector<float> plain = start, outer_before = start;
  for (uint64_t step = 1; step <= 20 * kPeriod; ++step) {
    loop.Step(SameBatches());
    Descend(0, step, plain);
    if (step % kPeriod != 0) {
      ASSERT_TRUE(std::ranges::equal(loop.local(0), plain));
      continue;
    }
    for (size_t i = 0; i < kElements; ++i) {
      const double bound =
          0x1p-24 * (std::fabs(static_cast<double>(outer_before[i]) - static_cast<double>(plain[i])) * (1 + 0x1p-24) +
                     std::fabs(static_cast<double>(loop.local(0)[i])) * (1 + 0x1p-23));
      ASSERT_LE(std::fabs(static_cast<double>(loop.local(0)[i]) - static_cast<double>(plain[i])), bound)
          << step << " " << i;
    }
    plain.assign(loop.local(0).begin(), loop.local(0).end());
    outer_before = plain;
  }
}

// If parameters and steps are small multiples of a power of two, nothing rounds, so the identity is
// exact.
TEST(OneWorker, OuterSgdAtOneIsPlainTrainingExactlyOnAGrid) {
  std::vector<float> start(64);
  for (size_t i = 0; i < start.size(); ++i) start[i] = static_cast<float>(i) * 0x1p-6f;
  const auto inner = [](size_t, uint64_t step, std::span<float> local) {
    for (size_t i = 0; i < local.size(); ++i) local[i] -= static_cast<float>((step * 7 + i) % 5) * 0x1p-10f;
  };
  Loop loop(LayoutOf({64}), kPlain, start, 1);
  std::vector<float> plain = start;
  for (uint64_t step = 1; step <= 50; ++step) {
    loop.Step(inner);
    inner(0, step, plain);
    ASSERT_TRUE(std::ranges::equal(loop.local(0), plain)) << step;
  }
}

// The weights 1/2 are exact, and x/2 + x/2 = x without rounding. (From three on, partial sums such
// as 3/4 x round.)
TEST(ManyWorkers, TwoOnTheSameBatchesAreOneBitForBit) {
  const std::vector<float> start = Start();
  Loop one(LayoutOf({kElements}), kDiLoCo, start, 1), two(LayoutOf({kElements}), kDiLoCo, start, 2);
  for (uint64_t step = 1; step <= 10 * kPeriod; ++step) {
    one.Step(SameBatches());
    two.Step(SameBatches());
    ASSERT_TRUE(std::ranges::equal(one.local(0), two.local(0)) && std::ranges::equal(one.local(0), two.local(1)))
        << step;
  }
  EXPECT_EQ(one.rounds().back().hash, two.rounds().back().hash);
}

// Any number k of workers: the merged pseudo-gradient of one round is within a relative error of
// (2k) * 2^-24 of the one worker's (k rounded weights and products, k - 1 sums). One Nesterov step
// from the same state multiplies the error by lr * (1 + mu) and adds its own roundings.
TEST(ManyWorkers, AnyNumberOnTheSameBatchesIsOneWithinABound) {
  const std::vector<float> start = Start();
  for (const size_t workers : {3u, 4u, 5u, 7u, 8u}) {
    Loop one(LayoutOf({kElements}), kDiLoCo, start, 1), many(LayoutOf({kElements}), kDiLoCo, start, workers);
    for (uint64_t step = 1; step <= kPeriod; ++step) {
      one.Step(SameBatches());
      many.Step(SameBatches());
    }
    const auto g = one.aggregator().State(FragmentIndex{0}).momentum;  // after one round the buffer is g
    for (size_t i = 0; i < kElements; ++i) {
      const double size = std::fabs(static_cast<double>(g[i]));
      const double result = std::fabs(static_cast<double>(one.outer(0)[i]));
      const double bound = 0x1p-24 * (0.7 * 1.9 * size * static_cast<double>(2 * workers + 8) + 2 * result);
      EXPECT_NEAR(static_cast<double>(many.outer(0)[i]), static_cast<double>(one.outer(0)[i]), bound) << workers;
    }
  }
}

// H = 1 with inner SGD and outer SGD at rate 1 is data parallelism: all workers apply the mean of
// their gradients.
TEST(DataParallel, APeriodOfOneWithSgdAveragesGradients) {
  const std::vector<float> start = Start();
  const size_t workers = 4;
  Loop loop(LayoutOf({kElements}), {.inner_steps = 1, .outer = {.kind = OuterKind::kSgd, .learning_rate = 1}}, start,
            workers);
  std::vector<double> wanted(start.begin(), start.end());
  for (uint64_t step = 1; step <= 30; ++step) {
    loop.Step(OwnBatches());
    for (size_t i = 0; i < kElements; ++i) {
      double mean = 0;
      for (size_t w = 0; w < workers; ++w) {
        mean += wanted[i] - static_cast<double>(NormalAt(StreamKey(w, "batch"), step * kElements + i));
      }
      wanted[i] -= 0.05f * mean / static_cast<double>(workers);
    }
    for (size_t w = 1; w < workers; ++w) ASSERT_TRUE(std::ranges::equal(loop.local(0), loop.local(w)));
  }
  // The map contracts, so the roundings of 30 steps do not add up beyond a few units of the largest
  // value (about 4).
  for (size_t i = 0; i < kElements; ++i)
    EXPECT_NEAR(static_cast<double>(loop.local(0)[i]), wanted[i], 20 * 4 * 0x1p-24);
}

// A dropped contribution is not lost: the drift stays and the next contribution carries it. With
// alpha 0, outer SGD at rate 1 and one worker with every second send dropped, all work is in the
// outer copy after the next sync.
TEST(LeftOut, WorkStaysInTheDriftUntilItCounts) {
  std::vector<float> start(64, 1.0f);
  LoopOptions options = kPlain;
  Loop loop(LayoutOf({64}), options, start, 2);
  // Worker 1 is left out of every second round.
  loop.set_arrives([](size_t worker, FragmentIndex, uint64_t step) { return worker == 0 || step / kPeriod % 2 == 0; });
  const auto inner = [](size_t worker, uint64_t, std::span<float> local) {
    for (float& x : local) x -= worker == 0 ? 0x1p-8f : 0x1p-7f;
  };
  for (uint64_t step = 1; step <= 2 * kPeriod; ++step) loop.Step(inner);
  // Round 1 moves by worker 0's 5 steps. In round 2 worker 0 has 5 more and worker 1 all 10 of its
  // steps; the mean of both.
  const float moved = 5 * 0x1p-8f + (5 * 0x1p-8f + 10 * 0x1p-7f) / 2;
  for (const float x : loop.outer(0)) ASSERT_EQ(x, 1.0f - moved);
  EXPECT_TRUE(std::ranges::equal(loop.local(0), loop.local(1)));
}

}  // namespace
}  // namespace atl::numerics
