// SPDX-License-Identifier: Apache-2.0
// Follows the frames that gRPC sends to a peer without changing them. Reports which streams the
// server has ended, and where between two frames the guard may insert its own. Pure; one
// connection, one thread.
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
  // Reads the next bytes and calls `ended` for each stream that the server has ended. Returns the
  // last offset in `bytes` at which the guard may insert a frame; nullopt if there is none.
  std::optional<size_t> Scan(std::span<const uint8_t> bytes, const std::function<void(uint32_t)>& ended);
  // True when the guard may insert a frame after the bytes read so far.
  bool at_boundary() const { return have_ == 0 && left_ == 0 && !in_block_; }

 private:
  std::array<uint8_t, kFrameHeaderBytes> header_{};
  size_t have_ = 0;
  uint32_t left_ = 0;      // remaining bytes of the payload
  bool in_block_ = false;  // within headers that CONTINUATION continues
};

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_OUTBOUND_TRACKER_H_
