// SPDX-License-Identifier: Apache-2.0
// The header that a load balancer puts before the bytes of a connection to name the address that it speaks for.
// Pure. Source: "The PROXY protocol", versions 1 and 2 (haproxy.org, 2020).
#ifndef ATOLL_COMMON_GUARD_PROXY_PROTOCOL_H_
#define ATOLL_COMMON_GUARD_PROXY_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/base/status.h"

namespace atl::guard {

inline constexpr size_t kProxyHeaderBytes = 536;  // the longest that is read: 16 bytes, addresses, and other values

struct ProxyHeader {
  size_t bytes = 0;      // of the header; what comes after belongs to the connection
  std::string address;   // "203.0.113.7"; empty: the balancer speaks for itself (LOCAL, UNKNOWN: a health check)
  std::string endpoint;  // as gRPC writes it: "ipv4:203.0.113.7:40112"
};

// Nothing while `bytes` may still become a header. InvalidArgument where they are none.
absl::StatusOr<std::optional<ProxyHeader>> ParseProxyHeader(std::span<const uint8_t> bytes);

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_PROXY_PROTOCOL_H_
