// SPDX-License-Identifier: Apache-2.0
// How much payload the next frame of a transfer takes where no cap says it: as much as leaves within a moment. What is
// said meanwhile over the same connection, a request or a grant, waits behind the frame that is leaving and what the
// receiver has room for, which is at least a frame: on a slow link frames of 1 MiB would let a short answer wait for as
// long as a whole fragment takes, so that nothing goes up while something comes down. Pure arithmetic.
#ifndef ATOLL_COMMON_RPC_FRAME_SIZE_H_
#define ATOLL_COMMON_RPC_FRAME_SIZE_H_

#include <algorithm>
#include <cstdint>

#include "common/base/time.h"
#include "common/plan/limits.h"

namespace atl {

// Not thread-safe.
class FrameSize {
 public:
  static constexpr uint64_t kLeast = 32 * 1024, kFirst = 64 * 1024, kMost = limits::kFramePayloadBytes;
  static constexpr Duration kQuick = Milliseconds(10), kSlow = Milliseconds(100);

  // Of a frame that begins at `offset` of what is sent: none reaches over a multiple of kMost, so that all receivers of
  // one thing soon take the same frames of it, whose CRC is taken once (MakeMemorySource).
  uint64_t BytesAt(uint64_t offset) const { return std::min(bytes_, kMost - offset % kMost); }
  // The transport is given a frame.
  void Begin(Instant now) { began_ = now; }
  // It has left.
  void Sent(Instant now) {
    const Duration took = now - began_;
    if (took <= kQuick) bytes_ = std::min(kMost, bytes_ * 2);
    if (took >= kSlow) bytes_ = std::max(kLeast, bytes_ / 2);
  }

 private:
  uint64_t bytes_ = kFirst;
  Instant began_{};
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_FRAME_SIZE_H_
