// SPDX-License-Identifier: Apache-2.0
#ifndef ATOLL_TESTS_SUPPORT_MANUAL_CLOCK_H_
#define ATOLL_TESTS_SUPPORT_MANUAL_CLOCK_H_

#include "common/base/time.h"

namespace atl {

// A clock that moves only on request. Not thread-safe; for single-threaded harnesses.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Instant start = {1'000'000'000}) : now_(start) {}
  Instant Now() const override { return now_; }
  int64_t WallNanos() const override { return 1'700'000'000'000'000'000 + now_.ns; }
  void Advance(Duration d) { now_ = now_ + d; }
  void Set(Instant t) { now_ = t; }

 private:
  Instant now_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_SUPPORT_MANUAL_CLOCK_H_
