// SPDX-License-Identifier: Apache-2.0
#include "common/base/host_port.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace atl {

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

absl::StatusOr<HostPort> ParseEndpoint(const std::string& text) {
  ATOLL_ASSIGN_OR_RETURN(HostPort out, ParseHostPort(text));
  if (text.find('/') != std::string::npos)
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not HOST:PORT: it must have no scheme and no '/'"));
  if (text.front() != '[' && out.host.find(':') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not HOST:PORT: an IPv6 address goes in brackets, [", out.host, "]:", out.port));
  }
  return out;
}

std::string WithoutPort(const std::string& text) { return text.substr(0, text.rfind(':')); }

std::string HostPortText(const std::string& host, int port) {
  const bool bare = host.find(':') != std::string::npos && host[0] != '[';
  return absl::StrCat(bare ? "[" : "", host, bare ? "]:" : ":", port);
}

std::string WithoutBrackets(const std::string& text) {
  return absl::StrReplaceAll(text, {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}});
}

std::string NetworkOf(const std::string& address) {
  constexpr size_t kNetworkBytes = 8;
  std::string bare = WithoutBrackets(std::string(absl::StripPrefix(address, "ipv6:")));
  bare = bare.substr(0, bare.find('%'));  // without the scope of a link-local address
  in6_addr parsed{};
  if (::inet_pton(AF_INET6, bare.c_str(), &parsed) != 1 || IN6_IS_ADDR_V4MAPPED(&parsed)) return address;
  std::fill(std::begin(parsed.s6_addr) + kNetworkBytes, std::end(parsed.s6_addr), uint8_t{0});
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET6, &parsed, text.data(), text.size());
  return absl::StrCat(text.data(), "/64");
}

bool IsLoopbackHost(const std::string& host) {
  if (host == "localhost" || host == "::1" || host == "[::1]") return true;
  return host.rfind("127.", 0) == 0 && std::count(host.begin(), host.end(), '.') == 3 &&
         host.find_first_not_of("0123456789.") == std::string::npos;
}

}  // namespace atl
