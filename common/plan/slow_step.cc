// SPDX-License-Identifier: Apache-2.0
#include "common/plan/slow_step.h"

#include <algorithm>

namespace atl {

uint64_t RoughParameters(const ModelSpec& model) {
  const uint64_t hidden = model.hidden_size, layer = 4 * hidden * hidden + 3 * hidden * model.intermediate_size;
  return model.layers * layer + hidden * model.vocab_size;
}

Duration SlowStep(const JobSpec& spec) {
  const uint64_t tokens = uint64_t{spec.batch.sequences_per_step} * spec.data.sequence_length;
  constexpr Duration kHour = Seconds(3600);
  constexpr uint64_t kDayNs = uint64_t{86'400} * 1'000'000'000;
  uint64_t product = 0;
  const bool huge = __builtin_mul_overflow(RoughParameters(spec.model), tokens, &product) || product > kDayNs;
  return huge ? kHour : std::min(kHour, Duration{static_cast<int64_t>(product * 6 / 40)});
}

}  // namespace atl
