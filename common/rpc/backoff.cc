// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/backoff.h"

#include <algorithm>

#include "common/base/check.h"

namespace atl {

Backoff::Backoff(const BackoffOptions& options, uint64_t seed)
    : options_(options), rng_(seed), current_(options.initial) {
  ATOLL_CHECK(options.factor_percent >= 100 && options.jitter_percent <= 100,
              "a backoff grows and its jitter is a share");
  ATOLL_CHECK(options.initial.ns > 0 && options.initial <= options.maximum,
              "a backoff has a first wait and a longest one");
}

Duration Backoff::Next() {
  const int64_t spread = current_.ns / 100 * options_.jitter_percent;
  const auto offset = static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(2 * spread + 1))) - spread;
  const Duration wait = std::min(Duration{current_.ns + offset}, options_.maximum);
  // Divides first, so that no intermediate value exceeds 2 x maximum.
  const Duration grown{current_.ns / 100 * options_.factor_percent + current_.ns % 100};
  current_ = std::min(std::max(grown, current_), options_.maximum);
  return wait;
}

void Backoff::Reset() { current_ = options_.initial; }

}  // namespace atl
