// SPDX-License-Identifier: Apache-2.0
// Rate cap at the sender: at most `rate` bytes a second on average and `burst` at once. Pure
// integer arithmetic.
#ifndef ATOLL_COMMON_RPC_TOKEN_BUCKET_H_
#define ATOLL_COMMON_RPC_TOKEN_BUCKET_H_

#include <atomic>
#include <cstdint>

#include "common/base/mutex.h"
#include "common/base/time.h"

namespace atl {

// Not thread-safe. If each sender waits for its turn, at most burst + rate * t bytes pass in any
// window of t seconds.
class TokenBucket {
 public:
  // rate_bytes_per_second 0: no cap.
  TokenBucket(uint64_t rate_bytes_per_second, uint64_t burst_bytes, Instant now);
  uint64_t burst_bytes() const { return burst_; }
  // Drops the available burst.
  void Empty() { available_ = 0; }
  // Returns the wait until these bytes may be sent. The bytes are taken at once, so that turns
  // follow the order of requests. Otherwise frequent small requests could keep the bucket from ever
  // filling for a large one.
  Duration Reserve(uint64_t bytes, Instant now);
  uint64_t rate_bytes_per_second() const { return rate_; }

 private:
  void Refill(Instant now);
  uint64_t rate_;
  uint64_t burst_;
  __int128 available_;  // negative: bytes already promised
  Instant last_;
  uint64_t remainder_ = 0;  // byte-nanoseconds not yet worth a byte
};

// Frame payload under a cap: the bytes of a tenth of a second, at least 4 KiB and at most a full
// frame; without a cap (0) a full frame. A rate measured over a few seconds then equals the cap,
// and neither end takes the pause between two frames for a stall.
uint64_t PacedFrameBytes(uint64_t rate_bytes_per_second);

// A bucket of two paced frames, shared by several transfers. Thread-safe.
class SharedBucket {
 public:
  SharedBucket(uint64_t rate_bytes_per_second, const Clock& clock);
  // Returns the time at which these bytes may be sent. The bytes are taken from the bucket even if
  // they are never sent. bytes <= frame_bytes(). Of a larger frame, made before SetRate lowered that
  // value, only the size of a full bucket is taken.
  Instant Reserve(uint64_t bytes) ATOLL_EXCLUDES(mutex_);
  // Sets the rate and empties the bucket. Does nothing when the rate is unchanged.
  void SetRate(uint64_t rate_bytes_per_second) ATOLL_EXCLUDES(mutex_);
  uint64_t rate_bytes_per_second() const { return rate_; }
  uint64_t frame_bytes() const { return PacedFrameBytes(rate_); }

 private:
  std::atomic<uint64_t> rate_;
  const Clock& clock_;
  Mutex mutex_;
  TokenBucket bucket_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_TOKEN_BUCKET_H_
