// SPDX-License-Identifier: Apache-2.0
// HTTP/2 framing: frame headers and the constants that the guard needs. Source: RFC 9113, sections
// 4.1, 6 and 7.
#ifndef ATOLL_COMMON_GUARD_HTTP2_H_
#define ATOLL_COMMON_GUARD_HTTP2_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace atl::guard {

inline constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
inline constexpr size_t kFrameHeaderBytes = 9;

enum class FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kResetStream = 3,
  kSettings = 4,
  kPushPromise = 5,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
};

inline constexpr uint8_t kEndStream = 0x1, kAck = 0x1, kEndHeaders = 0x4, kPadded = 0x8, kHasPriority = 0x20;

enum class Http2Error : uint32_t {
  kNoError = 0,
  kProtocolError = 1,
  kRefusedStream = 7,
  kCompressionError = 9,
  kEnhanceYourCalm = 11,
};

struct FrameHeader {
  uint32_t length = 0;  // of the payload, below 2^24
  FrameType type = FrameType::kData;
  uint8_t flags = 0;
  uint32_t stream = 0;
};

inline uint32_t ReadBigEndian32(const uint8_t* at) {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | uint32_t{at[3]};
}

inline FrameHeader ParseFrameHeader(const uint8_t* at) {
  return {.length = uint32_t{at[0]} << 16 | uint32_t{at[1]} << 8 | uint32_t{at[2]},
          .type = static_cast<FrameType>(at[3]),
          .flags = at[4],
          .stream = ReadBigEndian32(at + 5) & 0x7fffffffU};
}

inline void AppendBigEndian32(uint32_t value, std::string& out) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift & 0xff));
}

// Appends a complete frame.
inline void AppendFrame(FrameType type, uint8_t flags, uint32_t stream, std::string_view payload, std::string& out) {
  for (int shift = 16; shift >= 0; shift -= 8) out.push_back(static_cast<char>(payload.size() >> shift & 0xff));
  out.push_back(static_cast<char>(type));
  out.push_back(static_cast<char>(flags));
  AppendBigEndian32(stream, out);
  out.append(payload);
}

// Appends a header field as a literal without indexing, so that the receiver's dynamic table stays
// unchanged. Source: RFC 7541, section 6.2.2.
inline void AppendLiteralField(std::string_view name, std::string_view value, std::string& out) {
  const auto append_text = [&out](std::string_view text) {
    size_t left = text.size();
    if (left < 127) {
      out.push_back(static_cast<char>(left));
    } else {
      out.push_back(127);
      for (left -= 127; left >= 128; left >>= 7) out.push_back(static_cast<char>((left & 127) | 128));
      out.push_back(static_cast<char>(left));
    }
    out.append(text);
  };
  out.push_back(0);
  append_text(name);
  append_text(value);
}

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_HTTP2_H_
