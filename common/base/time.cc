// SPDX-License-Identifier: Apache-2.0
#include "common/base/time.h"

#include <ctime>

namespace atl {
namespace {

int64_t Read(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

Instant SystemClock::Now() const { return {Read(CLOCK_MONOTONIC)}; }
int64_t SystemClock::WallNanos() const { return Read(CLOCK_REALTIME); }

}  // namespace atl
