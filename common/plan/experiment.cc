// SPDX-License-Identifier: Apache-2.0
#include "common/plan/experiment.h"

#include <algorithm>
#include <array>

#include "common/base/random.h"
#include "common/plan/job_validation.h"

namespace atl {

bool DropsSync(const JobSpec& spec, const WorkerId& worker, const FragmentVersion& target) {
  const double probability = spec.experiment.drop_sync_probability;
  if (!(probability > 0)) return false;
  const uint64_t key = StreamKey(spec.data.seed, "experiment/drop/" + worker.value);
  const std::array<uint32_t, 4> words = Philox(key, target.version.value, target.fragment.value);
  // 53 bits make the comparison exact: the same result on every machine.
  const uint64_t draw = (uint64_t{words[0]} << 32 | words[1]) >> 11;
  return static_cast<double>(draw) < probability * 0x1p53;
}

uint32_t PoolSize(const JobSpec& spec, uint64_t step) {
  const uint64_t planned = std::max<uint64_t>(1, spec.workers.planned);
  const uint64_t total = std::max<uint64_t>(1, PlannedInnerSteps(spec));
  const uint64_t at = std::min(step, total - 1);
  const bool second_half = at >= total - total / 2;
  // A stage of the ramp is total / planned steps long; neither number can overflow here.
  const uint64_t stage = std::min(planned - 1, at * planned / total);
  uint64_t size = spec.workers.max;
  switch (spec.experiment.pool) {
    case PoolSchedule::kConstant: break;
    case PoolSchedule::kDoubling: size = second_half ? planned : (planned + 1) / 2; break;
    case PoolSchedule::kHalving: size = second_half ? (planned + 1) / 2 : planned; break;
    case PoolSchedule::kRampUp: size = 1 + stage; break;
    case PoolSchedule::kRampDown: size = planned - stage; break;
  }
  return static_cast<uint32_t>(size);
}

}  // namespace atl
