// SPDX-License-Identifier: Apache-2.0
#include "worker/device/step_kernels.h"

#include <cmath>

namespace atl {

atoll_gpu_adamw FactorsOf(const AdamwUpdate& update) {
  const auto steps = static_cast<double>(update.steps);
  atoll_gpu_adamw out;
  out.gradient_factor = static_cast<float>(update.gradient_factor);
  out.kept = static_cast<float>(1.0 - update.learning_rate * update.decay);
  out.first_share = static_cast<float>(1.0 - update.beta1);
  out.second_kept = static_cast<float>(update.beta2);
  out.second_share = static_cast<float>(1.0 - update.beta2);
  out.step_size = static_cast<float>(update.learning_rate / (1.0 - std::pow(update.beta1, steps)));
  out.second_scale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(update.beta2, steps)));
  out.epsilon = static_cast<float>(update.epsilon);
  return out;
}

}  // namespace atl
