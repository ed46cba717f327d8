// SPDX-License-Identifier: Apache-2.0
// Pauses new core steps so that queued queries are not starved. A query is answered only when the
// ledger is fully flushed, which never happens under a constant stream of commits. A pause needs
// two flushes at most: the running one and one for the records gathered meanwhile. If they take
// longer than the hold, a longer hold follows. Pure; lives on the engine thread.
#ifndef ATOLL_COORDINATOR_ENGINE_READ_FAIRNESS_H_
#define ATOLL_COORDINATOR_ENGINE_READ_FAIRNESS_H_

#include <algorithm>

#include "common/base/time.h"

namespace atl {

class ReadFairness {
 public:
  static constexpr Duration kPatience = Milliseconds(250);  // a query waits this long before steps are paused
  static constexpr Duration kFirst = Milliseconds(500);

  // The longest hold allowed. Heartbeats wait during a hold, and a hold must not make a worker look
  // silent or lost that was heard within a heartbeat interval before it.
  static Duration Longest(Duration heartbeat_interval, Duration membership_timeout) {
    return std::min(std::max(kFirst, heartbeat_interval), membership_timeout / 8);
  }

  // Whether steps wait; called while a flush is pending. `oldest`: when the oldest query began to
  // wait, kNever if there is none. No hold is longer than `most`.
  bool Holds(Instant now, Instant oldest, Duration most) {
    if (oldest == kNever) return false;
    const Instant from = std::max(oldest, until_) + kPatience;
    if (now < from) return false;
    if (now < from + std::min(longest_, most)) return true;
    until_ = now;
    longest_ = std::min(longest_ + longest_, most);
    return false;
  }
  // The ledger is flushed.
  void Served() { *this = ReadFairness(); }

 private:
  Instant until_{};            // end of the newest hold that answered no query
  Duration longest_ = kFirst;  // of the next hold
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_READ_FAIRNESS_H_
