// SPDX-License-Identifier: Apache-2.0
// Addresses in the forms used by people and gRPC: "HOST:PORT", "[::1]:7700", "ipv4:10.0.0.7:40112".
// Pure.
#ifndef ATOLL_COMMON_BASE_HOST_PORT_H_
#define ATOLL_COMMON_BASE_HOST_PORT_H_

#include <array>
#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace atl {

constexpr uint32_t kHighestPort = 65535;
// The coordinator's ports unless its options name others.
constexpr uint32_t kControlPort = 7070, kBulkPort = 7071, kAdminPort = 7072, kEnrollPort = 7073;

struct HostPort {
  std::string host;  // without the brackets of IPv6
  uint32_t port = 0;
};

// Splits "HOST:PORT" at the last colon. InvalidArgument, with the text, when the host is missing, or when no number
// from 0 to 65535 follows that colon.
absl::StatusOr<HostPort> ParseHostPort(const std::string& text);

// Checks an address that a person entered to connect to, "HOST" or "HOST:PORT", and appends the default port if it has
// none. Returns InvalidArgument, with the right form, for port 0, for a scheme or a path ("http://a:1"), and for IPv6
// without brackets, where the start of the port is ambiguous.
absl::Status CompleteEndpoint(std::string& endpoint, uint32_t default_port);

// Returns the text before the last colon, or all of it without a colon.
std::string WithoutPort(const std::string& text);

// Returns "HOST:PORT" as CompleteEndpoint accepts it. `host` may be IPv6 with or without brackets.
std::string HostPortText(const std::string& host, int port);

// Removes the brackets of IPv6, also in gRPC's escaped form ("%5B", "%5D").
std::string WithoutBrackets(const std::string& text);

// The networks that an address belongs to, from wide to narrow.
using Networks = std::array<std::string, 3>;

// Returns the networks by which callers are counted. For an IPv6 address, as a socket or gRPC writes it
// ("2001:db8::1", "ipv6:%5B2001:db8::1%5D"), these are those of its first 32, 48 and 64 bits ("2001:db8::/64"): the
// usual blocks of a provider, of a customer, and of a household or a rented machine. For IPv4, also mapped to IPv6,
// they are those of 16, 24 and 32 bits ("203.0.113.7/32"). Any other text is returned three times.
Networks NetworksOf(const std::string& address);

// True for 127.0.0.0/8, ::1, [::1] and localhost. Resolves no names: "127.example.org" is not
// loopback.
bool IsLoopbackHost(const std::string& host);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_HOST_PORT_H_
