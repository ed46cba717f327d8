// SPDX-License-Identifier: Apache-2.0
// How long a conversation may take as a whole, derived from its size and the measured rate, and the sentence for one
// that took longer. Pure.
#ifndef ATOLL_WORKER_LINK_TRANSFER_LIMIT_H_
#define ATOLL_WORKER_LINK_TRANSFER_LIMIT_H_

#include <cstdint>
#include <string>

#include "common/base/time.h"

namespace atl {

struct TransferLimit {
  uint64_t bytes = 0;  // that were still to be moved when it began
  uint64_t bytes_per_second = 0;
  bool measured = false;  // or assumed

  // `measured_bytes_per_second` may be 0: nothing is measured yet.
  static TransferLimit Of(uint64_t bytes, double measured_bytes_per_second);
  Duration whole() const;
  // What was waited for, how long, and why no longer; `moved` of `total` bytes are there.
  std::string Passed(Duration waited, uint64_t moved, uint64_t total) const;
};

}  // namespace atl

#endif  // ATOLL_WORKER_LINK_TRANSFER_LIMIT_H_
