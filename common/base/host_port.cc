// SPDX-License-Identifier: Apache-2.0
#include "common/base/host_port.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace atl {
namespace {

// Returns the network of the first `bytes` bytes of an address, such as "203.0.113.0/24".
template <typename Address>
std::string NetworkText(int family, const Address& address, size_t bytes) {
  std::array<uint8_t, sizeof(Address)> raw{};
  std::memcpy(raw.data(), &address, bytes);
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(family, raw.data(), text.data(), text.size());
  return absl::StrCat(text.data(), "/", bytes * 8);
}

bool IsIpv6(const std::string& host) {
  in6_addr parsed{};
  return ::inet_pton(AF_INET6, host.c_str(), &parsed) == 1;
}

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(const std::string& text) {
  const absl::Status refused = absl::InvalidArgumentError(absl::StrCat("'", text, "' is not HOST:PORT"));
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return refused;
  const std::string digits = text.substr(colon + 1);
  if (digits.empty() || digits.size() > 5 || digits.find_first_not_of("0123456789") != std::string::npos)
    return refused;
  HostPort out{text.substr(0, colon), static_cast<uint32_t>(std::stoul(digits))};
  if (out.port > kHighestPort) return refused;
  if (out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']')
    out.host = out.host.substr(1, out.host.size() - 2);
  return out;
}

absl::Status CompleteEndpoint(std::string& endpoint, uint32_t default_port) {
  const auto refused = [&endpoint](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("'", endpoint, "' is not HOST or HOST:PORT", why));
  };
  if (endpoint.find('/') != std::string::npos) return refused(": it must have no scheme and no '/'");
  const bool has_port = endpoint.empty() || (endpoint.back() != ']' && endpoint.find(':') != std::string::npos);
  const std::string full = has_port ? endpoint : absl::StrCat(endpoint, ":", default_port);
  const absl::StatusOr<HostPort> parsed = ParseHostPort(full);
  if (endpoint.find(':') != endpoint.rfind(':') && endpoint.front() != '[') {
    const bool is_whole = parsed.ok() && IsIpv6(parsed->host);
    return refused(absl::StrCat(": an IPv6 address goes in brackets, [",
                                is_whole ? absl::StrCat(parsed->host, "]:", parsed->port) : endpoint + "]"));
  }
  if (!parsed.ok() || parsed->port == 0 || parsed->host.find_first_of("[]") != std::string::npos)
    return refused(absl::StrCat(", with a port from 1 to ", kHighestPort));
  endpoint = full;
  return absl::OkStatus();
}

std::string WithoutPort(const std::string& text) { return text.substr(0, text.rfind(':')); }

std::string HostPortText(const std::string& host, int port) {
  const bool bare = host.find(':') != std::string::npos && host[0] != '[';
  return absl::StrCat(bare ? "[" : "", host, bare ? "]:" : ":", port);
}

std::string WithoutBrackets(const std::string& text) {
  return absl::StrReplaceAll(text, {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}});
}

Networks NetworksOf(const std::string& address) {
  in_addr v4{};
  const auto of_v4 = [&v4] {
    return Networks{NetworkText(AF_INET, v4, 2), NetworkText(AF_INET, v4, 3), NetworkText(AF_INET, v4, 4)};
  };
  if (::inet_pton(AF_INET, address.c_str(), &v4) == 1) return of_v4();
  std::string bare = WithoutBrackets(std::string(absl::StripPrefix(address, "ipv6:")));
  bare = bare.substr(0, bare.find('%'));  // without the scope of a link-local address
  in6_addr v6{};
  if (::inet_pton(AF_INET6, bare.c_str(), &v6) != 1) return {address, address, address};
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    std::memcpy(&v4, std::begin(v6.s6_addr) + sizeof(v6) - sizeof(v4), sizeof(v4));
    return of_v4();
  }
  return {NetworkText(AF_INET6, v6, 4), NetworkText(AF_INET6, v6, 6), NetworkText(AF_INET6, v6, 8)};
}

bool IsLoopbackHost(const std::string& host) {
  if (host == "localhost" || host == "::1" || host == "[::1]") return true;
  return host.rfind("127.", 0) == 0 && std::count(host.begin(), host.end(), '.') == 3 &&
         host.find_first_not_of("0123456789.") == std::string::npos;
}

}  // namespace atl
