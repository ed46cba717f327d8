// SPDX-License-Identifier: Apache-2.0
// Payload size of the next frame of a transfer without a rate cap: small enough to be sent quickly.
// Other messages on the same connection, a request or a grant, queue after the frame being sent and
// after the receiver's window of at least one frame. With frames of 1 MiB on a slow link, a short
// answer would wait as long as a whole fragment, and uploads would stall during downloads. Pure
// arithmetic.
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

  // Size of a frame at `offset` of the content. No frame crosses a multiple of kMost. All receivers
  // of the same content then soon get the same frames, and MakeMemorySource computes their CRC
  // once.
  uint64_t BytesAt(uint64_t offset) const { return std::min(bytes_, kMost - offset % kMost); }
  // Call when a frame is handed to the transport.
  void Begin(Instant now) { began_ = now; }
  // Call when the frame has been sent.
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
