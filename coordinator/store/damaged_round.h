// SPDX-License-Identifier: Apache-2.0
// A round with a damaged or incomplete segment file.
#ifndef ATOLL_COORDINATOR_STORE_DAMAGED_ROUND_H_
#define ATOLL_COORDINATOR_STORE_DAMAGED_ROUND_H_

#include <string>

#include "common/base/ids.h"

namespace atl {

struct DamagedRound {
  JobId job;
  std::string what;  // one sentence: file, offset, missing part, what to do
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_DAMAGED_ROUND_H_
