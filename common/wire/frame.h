// SPDX-License-Identifier: Apache-2.0
// atoll.v1.Frame without protobuf on the hot path: the encoder yields the few bytes that go before a payload, so that
// the payload itself is sent from where it lies; the decoder reads a message that came in pieces and yields views into
// them. The bytes are exactly those of a protobuf serialisation of the message (docs/formats/frames.md). Pure, safe
// everywhere.
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

// A whole frame that holds a header and no payload. Requires header.size() <= limits::kFramePayloadBytes.
std::string EncodeHeaderFrame(const std::string& header);

// A decoded frame. `payload` borrows from the slices given to DecodeFrame; its pieces in order are the payload.
struct FrameView {
  bool has_header = false;
  std::string header;
  uint64_t offset_bytes = 0;
  uint32_t crc32c = 0;
  bool last = false;
  std::vector<Bytes> payload;
  size_t payload_bytes = 0;
};

// `slices` in order are one message, as from ByteBuffer::Dump. Unknown fields are skipped. InvalidArgument: not a
// frame, a payload above limits::kFramePayloadBytes, both header and payload, a field twice. Does not look at the CRC.
absl::StatusOr<FrameView> DecodeFrame(std::span<const Bytes> slices);
// The same into `out`, whose memory is used again; what an error leaves in it means nothing.
absl::Status DecodeFrameInto(std::span<const Bytes> slices, FrameView& out);

// DataLoss when the payload does not have the CRC that the frame names; OutOfRange when it does not begin at
// `expected_offset` or ends beyond `total_bytes`; InvalidArgument when `last` does not match reaching the end.
absl::Status CheckFrame(const FrameView& frame, uint64_t expected_offset, uint64_t total_bytes);

}  // namespace atl

#endif  // ATOLL_COMMON_WIRE_FRAME_H_
