// SPDX-License-Identifier: Apache-2.0
// A sentence about a round whose log is not whole.
#ifndef ATOLL_COORDINATOR_STORE_DAMAGED_ROUND_H_
#define ATOLL_COORDINATOR_STORE_DAMAGED_ROUND_H_

#include <string>

#include "common/base/ids.h"

namespace atl {

struct DamagedRound {
  JobId job;
  std::string what;  // one sentence: file, offset, what is missing, what to do
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_DAMAGED_ROUND_H_
