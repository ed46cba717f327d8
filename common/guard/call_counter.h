// SPDX-License-Identifier: Apache-2.0
// Counts the calls of each peer at one listener, over all its connections, and says for how long a peer is not read
// because they come too fast. Nothing is refused. Thread-safe; time comes from the caller, never earlier than before.
#ifndef ATOLL_COMMON_GUARD_CALL_COUNTER_H_
#define ATOLL_COMMON_GUARD_CALL_COUNTER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/base/mutex.h"
#include "common/base/time.h"

namespace atl::guard {

// Calls in a second at one listener. A peer that made more than `peer` is not read for the rest of the second; nor is
// one that made more than `always` while all peers together made more than `all`.
struct CallLimits {
  uint32_t peer = 500;  // of an identity; in plaintext of a connection
  uint32_t all = 4000;
  uint32_t always = 16;
};

// What a call counts for when its caller resets it before its answer: gRPC has begun it, and gets no further.
inline constexpr uint32_t kCallsPerReset = 4;

class CallCounter {
 public:
  explicit CallCounter(CallLimits limits) : limits_(limits) {}
  void Add(const std::string& peer, uint32_t calls, Instant now) ATOLL_EXCLUDES(mutex_);
  // Nothing while the peer may be read.
  std::optional<Instant> PausedUntil(const std::string& peer, Instant now) ATOLL_EXCLUDES(mutex_);

 private:
  void Begin(Instant now) ATOLL_REQUIRES(mutex_);

  const CallLimits limits_;
  Mutex mutex_;
  Instant began_ ATOLL_GUARDED_BY(mutex_){};
  uint32_t all_ ATOLL_GUARDED_BY(mutex_) = 0;  // beyond `always` of each peer
  std::map<std::string, uint32_t> own_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_CALL_COUNTER_H_
