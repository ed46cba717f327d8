// SPDX-License-Identifier: Apache-2.0
// When to try again after a failure: exponential with full-range jitter of +-20 %, capped. Pure and seeded; knows no
// clock.
#ifndef ATOLL_COMMON_RPC_BACKOFF_H_
#define ATOLL_COMMON_RPC_BACKOFF_H_

#include <cstdint>

#include "common/base/random.h"
#include "common/base/time.h"

namespace atl {

struct BackoffOptions {
  Duration initial = Milliseconds(100);
  Duration maximum = Seconds(5);
  uint32_t factor_percent = 200;  // each wait is this much of the one before; >= 100
  uint32_t jitter_percent = 20;   // of the wait, both ways; <= 100
};

// Not thread-safe.
class Backoff {
 public:
  Backoff(const BackoffOptions& options, uint64_t seed);
  // The next wait; grows with each call up to the maximum (jitter included).
  Duration Next();
  // After a success.
  void Reset();

 private:
  BackoffOptions options_;
  Rng rng_;
  Duration current_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_BACKOFF_H_
