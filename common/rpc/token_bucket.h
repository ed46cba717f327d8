// SPDX-License-Identifier: Apache-2.0
// A rate cap at the sender: at most `rate` bytes a second on average and `burst` at once. Pure integer arithmetic.
#ifndef ATOLL_COMMON_RPC_TOKEN_BUCKET_H_
#define ATOLL_COMMON_RPC_TOKEN_BUCKET_H_

#include <atomic>
#include <cstdint>

#include "common/base/mutex.h"
#include "common/base/time.h"

namespace atl {

// Not thread-safe. Where nobody sends before his turn, at most burst + rate * t bytes pass in any window of t seconds.
class TokenBucket {
 public:
  // rate_bytes_per_second 0: no cap.
  TokenBucket(uint64_t rate_bytes_per_second, uint64_t burst_bytes, Instant now);
  uint64_t burst_bytes() const { return burst_; }
  // Gives away what may go at once.
  void Empty() { available_ = 0; }
  // How long until these bytes may go. They are taken at once, so that turns come in the order of asking, whatever the
  // sizes: who asked again and again for little would keep the bucket from ever holding much.
  Duration Reserve(uint64_t bytes, Instant now);
  uint64_t rate_bytes_per_second() const { return rate_; }

 private:
  void Refill(Instant now);
  uint64_t rate_;
  uint64_t burst_;
  __int128 available_;  // below 0: so much is promised
  Instant last_;
  uint64_t remainder_ = 0;  // byte-nanoseconds not yet worth a byte
};

// Payload of a frame under a cap: a tenth of a second's worth, at most what a frame may hold and at least 4 KiB, so
// that a rate measured over a few seconds is that of the cap, and no end of a slow transfer takes a pause for a stall.
uint64_t PacedFrameBytes(uint64_t rate_bytes_per_second);

// A bucket of two paced frames for several transfers. Thread-safe.
class SharedBucket {
 public:
  SharedBucket(uint64_t rate_bytes_per_second, const Clock& clock);
  // When these bytes may go; theirs from now on, also where they never go. bytes <= frame_bytes(); a frame that was cut
  // before SetRate made them fewer goes for a full bucket.
  Instant Reserve(uint64_t bytes) ATOLL_EXCLUDES(mutex_);
  // From now on, with a bucket that is empty. Nothing happens where it is the rate already.
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
