// SPDX-License-Identifier: Apache-2.0
// The request headers of a gRPC call: which names may pass, which values, and how they are written again.
//
// gRPC 1.51 treats some thirty header names specially, and some of them end the process when a peer sends them. Ten
// names are enough for a call (gRPC over HTTP/2, "Requests"): those pass, with checked values. Names that gRPC treats
// specially and that no client needs are refused. All other names are left out, since no handler reads them.
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

inline constexpr size_t kHeaderListBytes = 8 << 10;    // names, values and 32 bytes for each field
inline constexpr size_t kHeaderBlockBytes = 16 << 10;  // compressed
inline constexpr size_t kBombBytes = 64 << 10;         // of a list: no client has so many by mistake
inline constexpr size_t kPathBytes = 256;

// The headers of one call, while they arrive field by field.
class RequestHeaders {
 public:
  // Adds a field. The first error stays.
  void Add(std::string_view name, std::string_view value);
  // InvalidArgument or ResourceExhausted with a reason for the caller where the headers are no call's.
  absl::Status Check() const;
  // The path, "/package.Service/Method"; only after Check.
  const std::string& path() const { return path_; }
  // The fields that pass, as literals without a dynamic table.
  const std::string& encoded() const { return encoded_; }
  // Of all fields so far.
  size_t list_bytes() const { return list_bytes_; }

 private:
  absl::Status CheckField(std::string_view name, std::string_view value);

  absl::Status status_ = absl::OkStatus();
  std::string path_;
  std::string encoded_;
  size_t list_bytes_ = 0;
  uint32_t seen_ = 0;  // a bit for each name that may stand once
  bool regular_ = false;
};

// Decompresses header blocks of one connection (HPACK, RFC 7541) with a dynamic table of 4,096 bytes.
class HeaderDecoder {
 public:
  HeaderDecoder();
  ~HeaderDecoder();
  HeaderDecoder(const HeaderDecoder&) = delete;
  HeaderDecoder& operator=(const HeaderDecoder&) = delete;
  // A whole block. InvalidArgument where it is no valid block, ResourceExhausted where it says kBombBytes and more: the
  // connection cannot go on then.
  absl::StatusOr<RequestHeaders> Decode(std::span<const uint8_t> block);

 private:
  nghttp2_hd_inflater* inflater_ = nullptr;
};

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_REQUEST_HEADERS_H_
