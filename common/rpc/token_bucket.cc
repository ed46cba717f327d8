// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/token_bucket.h"

#include <algorithm>

#include "common/plan/limits.h"

namespace atl {
namespace {
constexpr uint64_t kNanosPerSecond = 1'000'000'000;
}  // namespace

TokenBucket::TokenBucket(uint64_t rate_bytes_per_second, uint64_t burst_bytes, Instant now)
    : rate_(rate_bytes_per_second), burst_(burst_bytes), available_(burst_bytes), last_(now) {}

void TokenBucket::Refill(Instant now) {
  if (now <= last_) return;
  const auto elapsed = static_cast<unsigned __int128>((now - last_).ns);
  last_ = now;
  const unsigned __int128 credit = elapsed * rate_ + remainder_;
  const unsigned __int128 bytes = credit / kNanosPerSecond;
  remainder_ = static_cast<uint64_t>(credit % kNanosPerSecond);
  available_ += static_cast<__int128>(bytes);
  if (available_ >= static_cast<__int128>(burst_)) {
    available_ = burst_;
    remainder_ = 0;
  }
}

Duration TokenBucket::Reserve(uint64_t bytes, Instant now) {
  if (rate_ == 0) return {};
  Refill(now);
  available_ -= bytes;
  if (available_ >= 0) return {};
  const unsigned __int128 missing = static_cast<unsigned __int128>(-available_) * kNanosPerSecond - remainder_;
  const unsigned __int128 wait = (missing + rate_ - 1) / rate_;
  return {static_cast<int64_t>(std::min<unsigned __int128>(wait, INT64_MAX))};
}

uint64_t PacedFrameBytes(uint64_t rate_bytes_per_second) {
  constexpr uint64_t kLeast = 4096;
  if (rate_bytes_per_second == 0) return limits::kFramePayloadBytes;
  return std::clamp<uint64_t>(rate_bytes_per_second / 10, kLeast, limits::kFramePayloadBytes);
}

SharedBucket::SharedBucket(uint64_t rate_bytes_per_second, const Clock& clock)
    : rate_(rate_bytes_per_second),
      clock_(clock),
      bucket_(rate_bytes_per_second, 2 * PacedFrameBytes(rate_bytes_per_second), clock.Now()) {}

Instant SharedBucket::Reserve(uint64_t bytes) {
  MutexLock lock(mutex_);
  const Instant now = clock_.Now();
  return now + bucket_.Reserve(std::min(bytes, bucket_.burst_bytes()), now);
}

void SharedBucket::SetRate(uint64_t rate_bytes_per_second) {
  MutexLock lock(mutex_);
  if (rate_.exchange(rate_bytes_per_second) == rate_bytes_per_second) return;
  bucket_ = TokenBucket(rate_bytes_per_second, 2 * PacedFrameBytes(rate_bytes_per_second), clock_.Now());
  bucket_.Empty();
}

}  // namespace atl
