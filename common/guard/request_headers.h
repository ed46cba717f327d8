// SPDX-License-Identifier: Apache-2.0
// The request headers of a gRPC call: allowed names, allowed values, and how they are rewritten.
//
// gRPC 1.51 treats about thirty header names specially, and some of them crash the process when a
// peer sends them. A call needs only ten names (gRPC over HTTP/2, "Requests"): these pass, with
// checked values. Other names that gRPC treats specially are refused. All remaining names are
// dropped, because no handler reads them.
#ifndef ATOLL_COMMON_GUARD_REQUEST_HEADERS_H_
#define ATOLL_COMMON_GUARD_REQUEST_HEADERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/base/status.h"

struct nghttp2_hd_inflater;

namespace atl::guard {

inline constexpr size_t kHeaderListBytes = 8 << 10;    // names, values, 32 bytes a field; a call with more is refused
inline constexpr size_t kHeaderBlockBytes = 16 << 10;  // of headers, compressed; a connection with more is ended
inline constexpr size_t kBombBytes = 64 << 10;         // of headers, decompressed; a connection with more is ended
inline constexpr size_t kPathBytes = 256;              // of :path; a call with more is refused

// The headers of one call, added field by field as they are decoded.
class RequestHeaders {
 public:
  // Adds a field. Keeps the first error.
  void Add(std::string_view name, std::string_view value);
  // InvalidArgument or ResourceExhausted, with a reason for the caller, when these are not the
  // headers of a call.
  absl::Status Check() const;
  // The path, "/package.Service/Method"; valid only after Check.
  const std::string& path() const { return path_; }
  // The passing fields as literals, without a dynamic table.
  const std::string& encoded() const { return encoded_; }
  // Size of all fields so far.
  size_t list_bytes() const { return list_bytes_; }

 private:
  absl::Status CheckField(std::string_view name, std::string_view value);

  absl::Status status_ = absl::OkStatus();
  std::string path_;
  std::string encoded_;
  size_t list_bytes_ = 0;
  uint32_t seen_ = 0;  // a bit for each name that may occur once
  bool regular_ = false;
};

// Decompresses header blocks of one connection (HPACK, RFC 7541) with a dynamic table of 4,096 bytes.
class HeaderDecoder {
 public:
  HeaderDecoder();
  ~HeaderDecoder();
  HeaderDecoder(const HeaderDecoder&) = delete;
  HeaderDecoder& operator=(const HeaderDecoder&) = delete;
  // Decodes a complete block. InvalidArgument when it is invalid, ResourceExhausted when it expands
  // to more than kBombBytes: after both the connection must end.
  absl::StatusOr<RequestHeaders> Decode(std::span<const uint8_t> block);

 private:
  nghttp2_hd_inflater* inflater_ = nullptr;
};

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_REQUEST_HEADERS_H_
