// SPDX-License-Identifier: Apache-2.0
// Limits the engine's time for looks (queries, or watchers), so that callers cannot slow the rounds:
// looks wait until they have taken at most a quarter of the recent time. Pure; lives on the engine thread.
#ifndef ATOLL_COORDINATOR_ENGINE_LOOK_SHARE_H_
#define ATOLL_COORDINATOR_ENGINE_LOOK_SHARE_H_

#include <algorithm>
#include <cstdint>
#include <functional>

#include "common/base/time.h"

namespace atl {

// A query that waits until the core's state is durable.
struct Look {
  Instant since;
  std::function<void()> show;
};

class LookShare {
 public:
  static constexpr int64_t kOneIn = 4;                   // looks get one part in this many of the engine's time
  static constexpr Duration kAtOnce = Milliseconds(50);  // of looks in a row; available again at whole_at_
  static constexpr Duration kMost = Milliseconds(250);   // most counted for a look: the process may stop in it

  // When the next look may begin.
  Instant opens() const { return whole_at_ - kAtOnce * kOneIn; }
  bool Open(Instant now) const { return now >= opens(); }
  // A look ended now.
  void Took(Duration time, Instant now) { whole_at_ = std::max(whole_at_, now) + std::min(time, kMost) * kOneIn; }

 private:
  Instant whole_at_{};  // when kAtOnce is available again
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_LOOK_SHARE_H_
