// SPDX-License-Identifier: Apache-2.0
// The time limit of a whole conversation, derived from its size and the measured rate, and the
// error message for one that took longer. Pure.
#ifndef ATOLL_WORKER_LINK_TRANSFER_LIMIT_H_
#define ATOLL_WORKER_LINK_TRANSFER_LIMIT_H_

#include <cstdint>
#include <string>

#include "common/base/time.h"

namespace atl {

struct TransferLimit {
  uint64_t bytes = 0;  // remaining when it began
  uint64_t bytes_per_second = 0;
  bool measured = false;  // false: assumed

  // `measured_bytes_per_second` may be 0: no measurement yet.
  static TransferLimit Of(uint64_t bytes, double measured_bytes_per_second);
  Duration whole() const;
  // The error message for a conversation that took `waited`: this time, the limit, and `moved` of `total` bytes.
  std::string Passed(Duration waited, uint64_t moved, uint64_t total) const;
};

}  // namespace atl

#endif  // ATOLL_WORKER_LINK_TRANSFER_LIMIT_H_
