// SPDX-License-Identifier: Apache-2.0
// Addresses as people and gRPC write them: "HOST:PORT", "[::1]:7700", "ipv4:10.0.0.7:40112". Pure.
#ifndef ATOLL_COMMON_BASE_HOST_PORT_H_
#define ATOLL_COMMON_BASE_HOST_PORT_H_

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace atl {

constexpr uint32_t kHighestPort = 65535;

struct HostPort {
  std::string host;  // without the brackets of IPv6
  uint32_t port = 0;
};

// InvalidArgument, with the text, when it has no host, or no number from 0 to 65535 behind the last colon.
absl::StatusOr<HostPort> ParseHostPort(const std::string& text);

// An address that somebody has written to be dialled. Also InvalidArgument, with what to write in its place, where it
// has a scheme or a path ("http://a:1"), or IPv6 without brackets, of which nobody can tell where the port begins.
absl::StatusOr<HostPort> ParseEndpoint(const std::string& text);

// What stands before the last colon, as it stands there; all of it where there is none.
std::string WithoutPort(const std::string& text);

// Without the brackets of IPv6, also as gRPC writes them in a peer ("%5B", "%5D").
std::string WithoutBrackets(const std::string& text);

// Whose callers are counted as one: of an IPv6 address, as a socket or gRPC writes it ("2001:db8::1",
// "ipv6:%5B2001:db8::1%5D"), the network of its first 64 bits ("2001:db8::/64"), which is the least that a household or
// a rented machine is given; any other text as it is, IPv4 within IPv6 among it.
std::string NetworkOf(const std::string& address);

// True for 127.0.0.0/8, ::1, [::1] and localhost. Looks nothing up: "127.example.org" is not one.
bool IsLoopbackHost(const std::string& host);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_HOST_PORT_H_
