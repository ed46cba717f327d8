// SPDX-License-Identifier: Apache-2.0
#include "common/guard/outbound_tracker.h"

#include <algorithm>
#include <cstring>

namespace atl::guard {

std::optional<size_t> OutboundTracker::Scan(std::span<const uint8_t> bytes,
                                            const std::function<void(uint32_t)>& ended) {
  std::optional<size_t> boundary;
  size_t at = 0;
  while (at < bytes.size()) {
    if (left_ > 0) {
      const size_t count = std::min<size_t>(left_, bytes.size() - at);
      left_ -= static_cast<uint32_t>(count);
      at += count;
    } else {
      const size_t count = std::min(kFrameHeaderBytes - have_, bytes.size() - at);
      std::memcpy(header_.data() + have_, bytes.data() + at, count);
      have_ += count;
      at += count;
      if (have_ < kFrameHeaderBytes) break;
      have_ = 0;
      const FrameHeader frame = ParseFrameHeader(header_.data());
      left_ = frame.length;
      const bool block = frame.type == FrameType::kHeaders || frame.type == FrameType::kContinuation;
      if (block) in_block_ = (frame.flags & kEndHeaders) == 0;
      const bool may_end = frame.type == FrameType::kData || frame.type == FrameType::kHeaders;
      if (frame.type == FrameType::kResetStream || (may_end && (frame.flags & kEndStream) != 0)) ended(frame.stream);
    }
    if (at_boundary()) boundary = at;
  }
  return boundary;
}

}  // namespace atl::guard
