// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the optimizer's arithmetic: complete updates and sums, computed on the
// host lane by lane with the kernels' arithmetic (worker/gpu/adamw_math.h).
#ifndef ATOLL_TESTS_UNIT_WORKER_GPU_ADAMW_CASES_H_
#define ATOLL_TESTS_UNIT_WORKER_GPU_ADAMW_CASES_H_

#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "common/base/random.h"
#include "worker/gpu/adamw_math.h"

namespace atl::adamw_cases {

struct State {
  std::vector<float> parameters, gradients, first, second;
};

// Values as in training: gradients over many magnitudes, second moments not negative.
inline State RandomState(uint64_t seed, size_t elements) {
  Rng random(seed);
  const auto uniform = [&random] { return static_cast<float>(random.Uniform() * 2 - 1); };
  State out;
  for (size_t i = 0; i < elements; ++i) {
    const float scale = std::ldexp(1.0f, static_cast<int>(random.Below(40)) - 30);
    out.parameters.push_back(uniform());
    out.gradients.push_back(i % 7 == 3 ? 0.0f : uniform() * scale);
    out.first.push_back(uniform() * scale);
    out.second.push_back(std::fabs(uniform()) * scale * scale);
  }
  return out;
}

inline void Update(const atoll_gpu_adamw& factors, State& state) {
  for (size_t i = 0; i < state.parameters.size(); ++i) {
    const adamw_math::Element e =
        adamw_math::Updated({state.parameters[i], state.gradients[i], state.first[i], state.second[i]}, factors);
    state.parameters[i] = e.parameter, state.gradients[i] = e.gradient, state.first[i] = e.first,
    state.second[i] = e.second;
  }
}

inline std::vector<float> Sums(std::span<const float> values) {
  std::vector<float> out;
  for (size_t begin = 0; begin < values.size(); begin += adamw_math::kSumBlock) {
    std::array<float, adamw_math::kSumLanes> lanes{};
    const std::span<const float> block =
        values.subspan(begin, std::min<size_t>(adamw_math::kSumBlock, values.size() - begin));
    for (size_t i = 0; i < block.size(); ++i) lanes[i % lanes.size()] += block[i] * block[i];
    for (size_t half = lanes.size() / 2; half > 0; half /= 2) {
      for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    }
    out.push_back(lanes[0]);
  }
  return out;
}

}  // namespace atl::adamw_cases

#endif  // ATOLL_TESTS_UNIT_WORKER_GPU_ADAMW_CASES_H_
