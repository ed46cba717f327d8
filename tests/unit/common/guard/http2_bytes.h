// SPDX-License-Identifier: Apache-2.0
// HTTP/2 bytes as a client sends them.
#ifndef ATOLL_TESTS_UNIT_COMMON_GUARD_HTTP2_BYTES_H_
#define ATOLL_TESTS_UNIT_COMMON_GUARD_HTTP2_BYTES_H_

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/guard/http2.h"

namespace atl::guard {

using Fields = std::vector<std::pair<std::string, std::string>>;

inline std::span<const uint8_t> AsSpan(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

inline std::string Frame(FrameType type, uint8_t flags, uint32_t stream, std::string_view payload = {}) {
  std::string out;
  AppendFrame(type, flags, stream, payload, out);
  return out;
}

// The headers of every gRPC call.
inline Fields CallFields(const std::string& path = "/atoll.v1.JobService/GetJob") {
  return {{":method", "POST"},   {":scheme", "http"}, {":path", path},
          {":authority", "c:1"}, {"te", "trailers"},  {"content-type", "application/grpc"}};
}

inline std::string Block(const Fields& fields) {
  std::string out;
  for (const auto& [name, value] : fields) AppendLiteralField(name, value, out);
  return out;
}

inline std::string Call(uint32_t stream, const Fields& fields = CallFields(), uint8_t flags = kEndHeaders) {
  return Frame(FrameType::kHeaders, flags, stream, Block(fields));
}

// Preface and empty settings.
inline std::string Hello() { return std::string(kPreface) + Frame(FrameType::kSettings, 0, 0); }

}  // namespace atl::guard

#endif  // ATOLL_TESTS_UNIT_COMMON_GUARD_HTTP2_BYTES_H_
