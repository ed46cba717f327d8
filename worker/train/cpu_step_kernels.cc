// SPDX-License-Identifier: Apache-2.0
#include "worker/train/cpu_step_kernels.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "worker/device/cpu_step.h"
#include "worker/model/parallel.h"

namespace atl {
namespace {

// The work is distributed in whole blocks of kBlock elements; a thread takes at least 16 of them.
constexpr size_t kBlock = ATOLL_GPU_SUM_BLOCK;
constexpr int64_t kGrain = 16;

// work(first, count) for ranges that cover `elements`.
template <typename Work>
void ForBlocks(size_t elements, const Work& work) {
  ParallelFor(static_cast<int64_t>((elements + kBlock - 1) / kBlock), kGrain, [&](int64_t begin, int64_t end) {
    const size_t first = static_cast<size_t>(begin) * kBlock;
    work(first, std::min(static_cast<size_t>(end) * kBlock, elements) - first);
  });
}

}  // namespace

absl::Status CpuStepKernels::Adamw(const AdamwUpdate& update, const AdamwSpans& s, void* /*compute_stream*/) {
  const atoll_gpu_adamw factors = FactorsOf(update);
  ForBlocks(s.parameters.size(), [&](size_t first, size_t count) {
    const auto part = [&](auto whole) { return whole.empty() ? whole : whole.subspan(first, count); };
    cpu_step::Adamw(factors, update.clear,
                    {part(s.parameters), part(s.gradients), part(s.first), part(s.second), part(s.rounded)});
  });
  return absl::OkStatus();
}

absl::Status CpuStepKernels::SumSquares(std::span<const float> values, std::span<float> sums,
                                        void* /*compute_stream*/) {
  ForBlocks(values.size(), [&](size_t first, size_t count) {
    cpu_step::SumSquares(values.subspan(first, count), sums.subspan(first / kBlock, (count + kBlock - 1) / kBlock));
  });
  return absl::OkStatus();
}

absl::Status CpuStepKernels::Fetch(std::span<const float> from, std::span<float> to, void* /*compute_stream*/) {
  std::copy_n(from.begin(), to.size(), to.begin());
  return absl::OkStatus();
}

}  // namespace atl
