// SPDX-License-Identifier: Apache-2.0
#include "common/wire/frame.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/plan/limits.h"

namespace atl {
namespace {

// Tags of transfer.proto: field number and wire type (0 varint, 1 fixed64, 2 length-delimited, 5 fixed32).
constexpr uint8_t kHeaderTag = 1 << 3 | 2;
constexpr uint8_t kOffsetTag = 2 << 3 | 1;
constexpr uint8_t kCrcTag = 3 << 3 | 5;
constexpr uint8_t kLastTag = 4 << 3 | 0;
constexpr uint8_t kPayloadTag = 15 << 3 | 2;

// Writes into a fixed buffer.
class Writer {
 public:
  explicit Writer(FramePrefix& out) : out_(out) {}
  void Byte(uint8_t value) { out_.storage[out_.size++] = static_cast<std::byte>(value); }
  void Fixed(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) Byte(static_cast<uint8_t>(value >> (8 * i)));
  }
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) Byte(static_cast<uint8_t>(value | 0x80));
    Byte(static_cast<uint8_t>(value));
  }

 private:
  FramePrefix& out_;
};

// Reads across slices.
class Reader {
 public:
  explicit Reader(std::span<const Bytes> slices) : slices_(slices) {
    for (const Bytes& slice : slices) left_ += slice.size();
    SkipEmpty();
  }
  size_t left() const { return left_; }

  bool Byte(uint8_t& out) {
    if (left_ == 0) return false;
    out = static_cast<uint8_t>(slices_[slice_][at_]);
    Advance(1);
    return true;
  }
  bool Fixed(int bytes, uint64_t& out) {
    out = 0;
    for (int i = 0; i < bytes; ++i) {
      uint8_t byte = 0;
      if (!Byte(byte)) return false;
      out |= uint64_t{byte} << (8 * i);
    }
    return true;
  }
  bool Varint(uint64_t& out) {
    out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      uint8_t byte = 0;
      if (!Byte(byte)) return false;
      out |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  // Appends views of the next `bytes` to `out`; null: skips them. Requires bytes <= left().
  void Take(size_t bytes, std::vector<Bytes>* out) {
    while (bytes > 0) {
      const size_t here = std::min(bytes, slices_[slice_].size() - at_);
      if (out != nullptr) out->push_back(slices_[slice_].subspan(at_, here));
      Advance(here);
      bytes -= here;
    }
  }

 private:
  void Advance(size_t bytes) {
    at_ += bytes;
    left_ -= bytes;
    SkipEmpty();
  }
  void SkipEmpty() {
    while (slice_ < slices_.size() && at_ == slices_[slice_].size()) {
      ++slice_;
      at_ = 0;
    }
  }
  std::span<const Bytes> slices_;
  size_t slice_ = 0, at_ = 0, left_ = 0;
};

absl::Status Malformed(const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("a bulk frame is malformed: ", why));
}

absl::StatusOr<size_t> ReadLength(Reader& reader) {
  uint64_t length = 0;
  if (!reader.Varint(length)) return Malformed("it ends inside a length");
  if (length > reader.left()) return Malformed("a field is longer than the frame");
  if (length > limits::kFramePayloadBytes) {
    return Malformed(
        absl::StrCat("a field has ", length, " bytes, at most ", limits::kFramePayloadBytes, " are allowed"));
  }
  return static_cast<size_t>(length);
}

absl::Status SkipUnknown(Reader& reader, uint64_t tag) {
  uint64_t value = 0;
  switch (tag & 7) {
    case 0: return reader.Varint(value) ? absl::OkStatus() : Malformed("it ends inside a number");
    case 1: return reader.Fixed(8, value) ? absl::OkStatus() : Malformed("it ends inside a number");
    case 5: return reader.Fixed(4, value) ? absl::OkStatus() : Malformed("it ends inside a number");
    case 2: {
      ATOLL_ASSIGN_OR_RETURN(const size_t length, ReadLength(reader));
      reader.Take(length, nullptr);
      return absl::OkStatus();
    }
    default: return Malformed("unknown wire type");
  }
}

absl::Status ReadHeader(Reader& reader, FrameView& out) {
  ATOLL_ASSIGN_OR_RETURN(const size_t length, ReadLength(reader));
  std::vector<Bytes> pieces;
  reader.Take(length, &pieces);
  out.has_header = true;
  for (const Bytes& piece : pieces) out.header.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return absl::OkStatus();
}

// Reads the value of one field; `seen` has a bit for each known field that the frame has had so far.
absl::Status ReadField(Reader& reader, uint64_t tag, uint32_t& seen, FrameView& out) {
  const auto number = static_cast<uint32_t>(std::min<uint64_t>(tag >> 3, 31));
  const bool known = tag == kHeaderTag || tag == kOffsetTag || tag == kCrcTag || tag == kLastTag || tag == kPayloadTag;
  if (!known) return SkipUnknown(reader, tag);
  if (seen & (1u << number)) return Malformed(absl::StrCat("field ", number, " occurs twice"));
  seen |= 1u << number;
  uint64_t value = 0;
  if (tag == kHeaderTag) return ReadHeader(reader, out);
  if (tag == kPayloadTag) {
    ATOLL_ASSIGN_OR_RETURN(out.payload_bytes, ReadLength(reader));
    reader.Take(out.payload_bytes, &out.payload);
    return absl::OkStatus();
  }
  const bool whole = tag == kLastTag ? reader.Varint(value) : reader.Fixed(tag == kOffsetTag ? 8 : 4, value);
  if (!whole) return Malformed("it ends inside a number");
  if (tag == kOffsetTag) out.offset_bytes = value;
  if (tag == kCrcTag) out.crc32c = static_cast<uint32_t>(value);
  if (tag == kLastTag) out.last = value != 0;
  return absl::OkStatus();
}

}  // namespace

FramePrefix EncodeFramePrefix(uint64_t offset_bytes, uint32_t crc32c, bool last, size_t payload_bytes) {
  ATOLL_CHECK(payload_bytes <= limits::kFramePayloadBytes, "a frame's payload has a limit");
  FramePrefix prefix;
  Writer writer(prefix);
  // proto3 omits zeros and an empty payload.
  if (offset_bytes != 0) {
    writer.Byte(kOffsetTag);
    writer.Fixed(offset_bytes, 8);
  }
  if (crc32c != 0) {
    writer.Byte(kCrcTag);
    writer.Fixed(crc32c, 4);
  }
  if (last) {
    writer.Byte(kLastTag);
    writer.Byte(1);
  }
  if (payload_bytes != 0) {
    writer.Byte(kPayloadTag);
    writer.Varint(payload_bytes);
  }
  return prefix;
}

std::string EncodeHeaderFrame(const std::string& header) {
  ATOLL_CHECK(header.size() <= limits::kFramePayloadBytes, "a frame's header has a limit");
  FramePrefix prefix;
  Writer writer(prefix);
  writer.Byte(kHeaderTag);
  writer.Varint(header.size());
  const Bytes bytes = prefix.bytes();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + header;
}

absl::Status DecodeFrame(std::span<const Bytes> slices, FrameView& frame) {
  Reader reader(slices);
  if (reader.left() > limits::kMessageBytes) return Malformed(absl::StrCat("it has ", reader.left(), " bytes"));
  frame.payload.clear();
  frame = {.header = {}, .payload = std::move(frame.payload)};
  uint32_t seen = 0;
  while (reader.left() > 0) {
    uint64_t tag = 0;
    if (!reader.Varint(tag) || tag >> 3 == 0) return Malformed("a field has no valid tag");
    ATOLL_RETURN_IF_ERROR(ReadField(reader, tag, seen, frame));
  }
  if (frame.has_header && frame.payload_bytes > 0) return Malformed("it has a header and a payload");
  return absl::OkStatus();
}

absl::Status CheckFrame(const FrameView& frame, uint64_t expected_offset, uint64_t total_bytes) {
  if (frame.has_header) return Malformed("a header where payload was expected");
  if (frame.offset_bytes != expected_offset) {
    return absl::OutOfRangeError(
        absl::StrCat("a bulk frame begins at offset ", frame.offset_bytes, ", expected ", expected_offset));
  }
  if (frame.payload_bytes > total_bytes - expected_offset) {
    return absl::OutOfRangeError(absl::StrCat("a bulk frame of ", frame.payload_bytes, " bytes at offset ",
                                              expected_offset, " goes beyond the announced ", total_bytes));
  }
  const bool ends = expected_offset + frame.payload_bytes == total_bytes;
  if (frame.last != ends)
    return Malformed(ends ? "the last one is not marked as last" : "it is marked as last too early");
  if (frame.payload_bytes == 0 && !ends) return Malformed("it is empty");
  uint32_t crc = 0;
  for (const Bytes& piece : frame.payload) crc = Crc32c(crc, piece);
  if (crc != frame.crc32c) {
    return absl::DataLossError(absl::StrCat("a bulk frame at offset ", expected_offset, " has CRC-32C ", crc,
                                            ", expected ", frame.crc32c, ": it was damaged in transit"));
  }
  return absl::OkStatus();
}

}  // namespace atl
