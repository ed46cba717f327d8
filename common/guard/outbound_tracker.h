// SPDX-License-Identifier: Apache-2.0
// Follows the frames that gRPC sends to a peer, unchanged: tells which streams the server has ended, and where between
// two frames the guard may put one of its own. Pure; one connection, one thread.
#ifndef ATOLL_COMMON_GUARD_OUTBOUND_TRACKER_H_
#define ATOLL_COMMON_GUARD_OUTBOUND_TRACKER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "common/guard/http2.h"

namespace atl::guard {

class OutboundTracker {
 public:
  // Reads the next bytes. Calls `ended` for each stream that the server has ended. The last place in `bytes` at which a
  // frame of the guard's may stand, in bytes from their begin; nothing where there is none.
  std::optional<size_t> Scan(std::span<const uint8_t> bytes, const std::function<void(uint32_t)>& ended);
  // Whether a frame of the guard's may stand after what was read.
  bool at_boundary() const { return have_ == 0 && left_ == 0 && !in_block_; }

 private:
  std::array<uint8_t, kFrameHeaderBytes> header_{};
  size_t have_ = 0;
  uint32_t left_ = 0;      // of the payload
  bool in_block_ = false;  // headers that CONTINUATION continues
};

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_OUTBOUND_TRACKER_H_
