// SPDX-License-Identifier: Apache-2.0
// Whether new steps wait until the ledger has caught up, so that what was asked for long ago is shown: while something
// is always being flushed that would never be. That takes two flushes at most, the one under way and one of what has
// gathered behind it; where they take longer than the hold, a longer one follows. Pure; lives on the engine thread.
#ifndef ATOLL_COORDINATOR_ENGINE_HOLD_H_
#define ATOLL_COORDINATOR_ENGINE_HOLD_H_

#include <algorithm>

#include "common/base/time.h"

namespace atl {

class Hold {
 public:
  static constexpr Duration kPatience = Milliseconds(250);  // of who asks, before steps wait for it
  static constexpr Duration kFirst = Milliseconds(500);

  // What a hold may take: heartbeats wait as well, and for no hold may a worker look silent, or count as lost, which
  // is heard no more than a heartbeat interval before it begins.
  static Duration Longest(Duration heartbeat_interval, Duration membership_timeout) {
    return std::min(std::max(kFirst, heartbeat_interval), membership_timeout / 8);
  }

  // While the ledger is behind: whether steps wait. `oldest`: since when somebody waits to be shown something, kNever
  // where nobody does. No hold is longer than `most`.
  bool Holds(Instant now, Instant oldest, Duration most) {
    if (oldest == kNever) return false;
    const Instant from = std::max(oldest, until_) + kPatience;
    if (now < from) return false;
    if (now < from + std::min(longest_, most)) return true;
    until_ = now;
    longest_ = std::min(longest_ + longest_, most);
    return false;
  }
  // The ledger has caught up.
  void Served() { *this = Hold(); }

 private:
  Instant until_{};            // the newest hold, which served nobody, ended there
  Duration longest_ = kFirst;  // of the next
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_HOLD_H_
