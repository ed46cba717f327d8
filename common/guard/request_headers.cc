// SPDX-License-Identifier: Apache-2.0
#include "common/guard/request_headers.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/guard/http2.h"

namespace atl::guard {
namespace {

constexpr size_t kFieldOverhead = 32;  // RFC 9113, section 6.5.2, SETTINGS_MAX_HEADER_LIST_SIZE

bool IsVisible(std::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

bool IsPath(std::string_view value) {
  return !value.empty() && value.size() <= kPathBytes && value[0] == '/' &&
         std::all_of(value.begin(), value.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

// "10S": at most eight digits and a unit.
bool IsTimeout(std::string_view value) {
  if (value.size() < 2 || value.size() > 9) return false;
  const std::string_view digits = value.substr(0, value.size() - 1);
  return std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
         std::string_view("HMSmun").find(value.back()) != std::string_view::npos;
}

bool IsEncodingList(std::string_view value) {
  return value.size() <= 64 && std::all_of(value.begin(), value.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || c == ',' || c == ' ' || c == '-';
         });
}

struct PassingName {
  std::string_view name;
  bool (*fits)(std::string_view value);
  bool required;
};

// Each may occur once. gRPC over HTTP/2: Request-Headers.
constexpr std::array kPassing = {
    PassingName{":method", [](std::string_view v) { return v == "POST"; }, true},
    PassingName{":scheme", [](std::string_view v) { return v == "http" || v == "https"; }, true},
    PassingName{":path", IsPath, true},
    PassingName{":authority", [](std::string_view v) { return v.size() <= 255 && IsVisible(v); }, false},
    PassingName{"te", [](std::string_view v) { return v == "trailers"; }, true},
    PassingName{"content-type",
                [](std::string_view v) {
                  return v == "application/grpc" || v == "application/grpc+proto" || v == "application/grpc;proto";
                },
                true},
    PassingName{"user-agent", [](std::string_view v) { return v.size() <= 512 && IsVisible(v); }, false},
    PassingName{"grpc-timeout", IsTimeout, false},
    PassingName{"grpc-encoding", IsEncodingList, false},
    PassingName{"grpc-accept-encoding", IsEncodingList, false},
};

// Further names that gRPC 1.51 treats specially (every trait of
// src/core/lib/transport/metadata_batch.h), and the connection-specific names forbidden by RFC
// 9113, section 8.2.2. Names that begin with "grpc" or ":" are always special.
constexpr std::array<std::string_view, 10> kSpecial = {
    "host",       "lb-token",         "lb-cost-bin", "endpoint-load-metrics-bin", "x-envoy-peer-metadata",
    "connection", "proxy-connection", "keep-alive",  "transfer-encoding",         "upgrade"};

bool IsSpecial(std::string_view name) {
  return name.rfind("grpc", 0) == 0 || name.rfind(':', 0) == 0 ||
         std::find(kSpecial.begin(), kSpecial.end(), name) != kSpecial.end();
}

bool IsName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
}

// Shortened and printable, for a message to the caller.
std::string Quoted(std::string_view text) {
  return absl::StrCat("'", absl::CEscape(std::string(text.substr(0, 64))), "'");
}

}  // namespace

void RequestHeaders::Add(std::string_view name, std::string_view value) {
  list_bytes_ += name.size() + value.size() + kFieldOverhead;
  if (!status_.ok()) return;
  if (list_bytes_ > kHeaderListBytes) {
    status_ = absl::ResourceExhaustedError(
        absl::StrCat("the request headers are larger than ", kHeaderListBytes, " bytes: send fewer or shorter ones"));
    return;
  }
  status_ = CheckField(name, value);
}

absl::Status RequestHeaders::CheckField(std::string_view name, std::string_view value) {
  const auto* const passing =
      std::find_if(kPassing.begin(), kPassing.end(), [name](const PassingName& one) { return one.name == name; });
  const bool pseudo = !name.empty() && name[0] == ':';
  if (pseudo && regular_) {
    return absl::InvalidArgumentError(absl::StrCat("header ", Quoted(name), " stands after a regular header"));
  }
  regular_ = regular_ || !pseudo;
  if (passing == kPassing.end()) {
    if (IsSpecial(name)) return absl::InvalidArgumentError(absl::StrCat("header ", Quoted(name), " is not allowed"));
    if (!IsName(name)) return absl::InvalidArgumentError(absl::StrCat(Quoted(name), " is no name of a header"));
    return absl::OkStatus();  // dropped: no handler reads it
  }
  const uint32_t bit = uint32_t{1} << (passing - kPassing.begin());
  if ((seen_ & bit) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("header ", Quoted(name), " stands twice"));
  }
  seen_ |= bit;
  if (!passing->fits(value)) {
    return absl::InvalidArgumentError(
        absl::StrCat("header ", Quoted(name), " has the value ", Quoted(value), ", which no gRPC call has"));
  }
  if (name == ":path") path_ = std::string(value);
  AppendLiteralField(name, value, encoded_);
  return absl::OkStatus();
}

absl::Status RequestHeaders::Check() const {
  ATOLL_RETURN_IF_ERROR(status_);
  for (size_t i = 0; i < kPassing.size(); ++i) {
    if (kPassing[i].required && (seen_ & uint32_t{1} << i) == 0) {
      return absl::InvalidArgumentError(absl::StrCat("header ", Quoted(kPassing[i].name), " is missing"));
    }
  }
  return absl::OkStatus();
}

HeaderDecoder::HeaderDecoder() {
  ATOLL_CHECK(nghttp2_hd_inflate_new(&inflater_) == 0, "there is memory for a header table");
}

HeaderDecoder::~HeaderDecoder() { nghttp2_hd_inflate_del(inflater_); }

absl::StatusOr<RequestHeaders> HeaderDecoder::Decode(std::span<const uint8_t> block) {
  RequestHeaders headers;
  for (;;) {
    nghttp2_nv field{};
    int flags = 0;
    const ssize_t read = nghttp2_hd_inflate_hd2(inflater_, &field, &flags, block.data(), block.size(), 1);
    if (read < 0) return absl::InvalidArgumentError("a header block that cannot be decompressed");
    block = block.subspan(static_cast<size_t>(read));
    if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
      headers.Add({reinterpret_cast<const char*>(field.name), field.namelen},
                  {reinterpret_cast<const char*>(field.value), field.valuelen});
      if (headers.list_bytes() > kBombBytes)
        return absl::ResourceExhaustedError("a header block that unpacks to more than 64 KiB");
    }
    if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) {
      nghttp2_hd_inflate_end_headers(inflater_);
      return headers;
    }
    if ((flags & NGHTTP2_HD_INFLATE_EMIT) == 0 && block.empty()) {
      return absl::InvalidArgumentError("a header block that ends within a field");
    }
  }
}

}  // namespace atl::guard
