// SPDX-License-Identifier: Apache-2.0
// The moving mean of transfer rates: a new one has a weight of one quarter. The caller chooses the transfers
// (link_state.h); rate_window.h measures the rate of the link itself. Owned by the turning thread.
#ifndef ATOLL_WORKER_LINK_MOVING_RATE_H_
#define ATOLL_WORKER_LINK_MOVING_RATE_H_

#include <cstdint>

#include "common/base/time.h"

namespace atl {

class MovingRate {
 public:
  // A transfer without duration is ignored.
  void Add(uint64_t bytes, Duration took) {
    if (took.ns <= 0) return;
    const double rate = static_cast<double>(bytes) / ToSeconds(took);
    mean_ = mean_ == 0 ? rate : 0.75 * mean_ + 0.25 * rate;
  }
  // 0 before the first.
  double bytes_per_second() const { return mean_; }

 private:
  double mean_ = 0;
};

}  // namespace atl

#endif  // ATOLL_WORKER_LINK_MOVING_RATE_H_
