// SPDX-License-Identifier: Apache-2.0
// Counts the calls of each peer at one listener, over all its connections, and computes how long
// reading from a peer pauses because its calls come too fast. Refuses nothing. Thread-safe. The
// caller passes the time, which never decreases.
#ifndef ATOLL_COMMON_GUARD_CALL_COUNTER_H_
#define ATOLL_COMMON_GUARD_CALL_COUNTER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/base/mutex.h"
#include "common/base/time.h"

namespace atl::guard {

// Calls per second at one listener. Reading from a peer pauses for the rest of the second when it made more than
// `peer` calls, or when it made more than `always` and all peers together made more than `all`. In that sum a peer
// counts with its calls beyond `always` and up to `peer`: a larger burst, sent before the peer's pause, does not pause
// other peers.
struct CallLimits {
  uint32_t peer = 500;   // calls a second of an identity (in plaintext of a connection); beyond that it is not read
  uint32_t all = 4000;   // calls a second of all peers of a port; beyond that only `always` of each are read
  uint32_t always = 16;  // calls a second of a peer that are always read
};

// Open calls and unfinished messages of one peer, over all its connections to a listener. Thread-safe.
struct CallerLoad {
  std::atomic<int64_t> calls = 0;             // open ones
  std::atomic<int64_t> unfinished_bytes = 0;  // of messages that are not complete
};
inline constexpr int64_t kMostOpenCalls = 512;    // of a peer; further ones are refused
inline constexpr int64_t kOpenCallsOfAll = 1024;  // of all peers of a port; beyond that each may have kOpenCallsAlways
inline constexpr int64_t kOpenCallsAlways = 3;    // of a peer that kOpenCallsOfAll does not refuse
inline constexpr int64_t kMostUnfinishedBytes = 32 << 20;  // of a peer; above it, a connection that adds more is ended

inline constexpr uint32_t kUpdatesPerCall = 64;     // window updates that count as one call
inline constexpr uint32_t kSmallPiecesPerCall = 8;  // small messages or frames, or frames of ended calls, as one call
inline constexpr uint32_t kCallsPerReset = 4;       // added for a call reset before its answer or above its limits

class CallCounter {
 public:
  explicit CallCounter(CallLimits limits) : limits_(limits) {}
  void Add(const std::string& peer, uint32_t calls, Instant now) ATOLL_EXCLUDES(mutex_);
  std::shared_ptr<CallerLoad> LoadOf(const std::string& peer) ATOLL_EXCLUDES(mutex_);
  // Open calls of all peers.
  std::atomic<int64_t>& open_calls() { return open_calls_; }
  // nullopt while the peer may be read.
  std::optional<Instant> PausedUntil(const std::string& peer, Instant now) ATOLL_EXCLUDES(mutex_);

 private:
  void Begin(Instant now) ATOLL_REQUIRES(mutex_);

  const CallLimits limits_;
  std::atomic<int64_t> open_calls_ = 0;
  Mutex mutex_;
  Instant began_ ATOLL_GUARDED_BY(mutex_){};
  uint32_t all_ ATOLL_GUARDED_BY(mutex_) = 0;  // sum over peers of calls beyond `always`, up to `peer`
  std::map<std::string, uint32_t> own_ ATOLL_GUARDED_BY(mutex_);
  std::map<std::string, std::weak_ptr<CallerLoad>> loads_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_CALL_COUNTER_H_
