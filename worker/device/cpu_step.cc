// SPDX-License-Identifier: Apache-2.0
// Checks sizes, then dispatches to the best instruction set of this CPU.
#include "worker/device/cpu_step.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/device/cpu_step.cc"
// The kernels must be included after foreach_target.h.
// clang-format off
#include "hwy/foreach_target.h"  // includes this file once more for each target
#include "worker/device/cpu_step-inl.h"
// clang-format on

#if HWY_ONCE
#include "common/base/check.h"

namespace atl::cpu_step {

HWY_EXPORT(Adamw);
HWY_EXPORT(SumSquares);

void Adamw(const atoll_gpu_adamw& factors, bool clear, const AdamwSpans& spans) {
  const size_t size = spans.parameters.size();
  ATOLL_CHECK(spans.gradients.size() == size && spans.first.size() == size && spans.second.size() == size &&
                  (spans.rounded.empty() || spans.rounded.size() == size),
              "spans of one update differ in length");
  HWY_DYNAMIC_DISPATCH(Adamw)(factors, clear, spans);
}

void SumSquares(std::span<const float> values, std::span<float> sums) {
  ATOLL_CHECK(sums.size() == (values.size() + ATOLL_GPU_SUM_BLOCK - 1) / ATOLL_GPU_SUM_BLOCK,
              "there is a sum for each block of the values");
  HWY_DYNAMIC_DISPATCH(SumSquares)(values, sums);
}

}  // namespace atl::cpu_step
#endif  // HWY_ONCE
