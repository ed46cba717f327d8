// SPDX-License-Identifier: Apache-2.0
// atoll.v1.Frame without protobuf on the hot path. The encoder produces only the few bytes before a
// payload, so that the payload itself is sent without a copy. The decoder reads a message in pieces
// and returns views into them. The bytes equal a protobuf serialisation of the message
// (docs/formats/frames.md). Pure, safe everywhere.
#ifndef ATOLL_COMMON_WIRE_FRAME_H_
#define ATOLL_COMMON_WIRE_FRAME_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/base/status.h"

namespace atl {

// The bytes before a payload: offset, crc32c, last, tag and length of the payload.
struct FramePrefix {
  std::array<std::byte, 24> storage{};
  size_t size = 0;
  Bytes bytes() const { return Bytes(storage).first(size); }
};

// Requires payload_bytes <= limits::kFramePayloadBytes. `crc32c` is Crc32c(0, payload).
FramePrefix EncodeFramePrefix(uint64_t offset_bytes, uint32_t crc32c, bool last, size_t payload_bytes);

// Returns a complete frame with a header and no payload. Requires header.size() <=
// limits::kFramePayloadBytes.
std::string EncodeHeaderFrame(const std::string& header);

// A decoded frame. `payload` consists of views into the slices given to DecodeFrame, in order.
struct FrameView {
  bool has_header = false;
  std::string header;
  uint64_t offset_bytes = 0;
  uint32_t crc32c = 0;
  bool last = false;
  std::vector<Bytes> payload;
  size_t payload_bytes = 0;
};

// Decodes one message, given as slices in order, and reuses the memory of `out`. Skips unknown
// fields. InvalidArgument: not a frame, a payload or other field above limits::kFramePayloadBytes,
// both header and payload, a duplicate field. Does not check the CRC. After an error the content of
// `out` is undefined.
absl::Status DecodeFrame(std::span<const Bytes> slices, FrameView& out);

// Requires expected_offset <= total_bytes. DataLoss when the payload does not match the frame's CRC;
// OutOfRange when it does not begin at `expected_offset` or ends beyond `total_bytes`; InvalidArgument
// when the frame has a header, is empty before the end, or its `last` does not agree with the end.
absl::Status CheckFrame(const FrameView& frame, uint64_t expected_offset, uint64_t total_bytes);

}  // namespace atl

#endif  // ATOLL_COMMON_WIRE_FRAME_H_
