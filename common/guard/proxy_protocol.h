// SPDX-License-Identifier: Apache-2.0
// The header that a load balancer sends before the bytes of a connection, with the client's
// address. Pure. Source: "The PROXY protocol", versions 1 and 2 (haproxy.org, 2020).
#ifndef ATOLL_COMMON_GUARD_PROXY_PROTOCOL_H_
#define ATOLL_COMMON_GUARD_PROXY_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/base/status.h"

namespace atl::guard {

inline constexpr size_t kProxyHeaderBytes = 536;  // longest PROXY header; a connection with a longer one is ended

struct ProxyHeader {
  size_t bytes = 0;      // length of the header
  std::string address;   // the client's, "203.0.113.7"; empty: not TCP over IP, or the balancer itself (a health check)
  std::string endpoint;  // in gRPC's form: "ipv4:203.0.113.7:40112"; empty if `address` is
};

// nullopt while `bytes` may still become a header. InvalidArgument when they cannot.
absl::StatusOr<std::optional<ProxyHeader>> ParseProxyHeader(std::span<const uint8_t> bytes);

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_PROXY_PROTOCOL_H_
