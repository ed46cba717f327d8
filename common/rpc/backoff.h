// SPDX-License-Identifier: Apache-2.0
// Waits between retries: exponential growth with +-20 % jitter, up to a maximum. Deterministic for
// a seed; reads no clock.
#ifndef ATOLL_COMMON_RPC_BACKOFF_H_
#define ATOLL_COMMON_RPC_BACKOFF_H_

#include <cstdint>

#include "common/base/random.h"
#include "common/base/time.h"

namespace atl {

struct BackoffOptions {
  Duration initial = Milliseconds(100);
  Duration maximum = Seconds(5);
  uint32_t factor_percent = 200;  // each wait is this percentage of the previous one; >= 100
  uint32_t jitter_percent = 20;   // percentage of the wait, in both directions; <= 100
};

// Not thread-safe.
class Backoff {
 public:
  Backoff(const BackoffOptions& options, uint64_t seed);
  // Returns the next wait. It grows up to the maximum, apart from jitter, which never raises it above the maximum.
  Duration Next();
  // Call after a success: the next wait is `initial` again.
  void Reset();

 private:
  BackoffOptions options_;
  Rng rng_;
  Duration current_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_BACKOFF_H_
