// SPDX-License-Identifier: Apache-2.0
#include "common/base/system_random.h"

#include <random>

namespace atl {

uint64_t SystemRandomBits() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

}  // namespace atl
