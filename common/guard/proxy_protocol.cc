// SPDX-License-Identifier: Apache-2.0
#include "common/guard/proxy_protocol.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace atl::guard {
namespace {

constexpr std::string_view kSignature2("\r\n\r\n\0\r\nQUIT\n", 12);
constexpr std::string_view kSignature1 = "PROXY ";
constexpr size_t kFixed2 = 16, kLongest1 = 107;

absl::Status NoHeader() {
  return absl::InvalidArgumentError(
      "no PROXY header: the listener expects one from its load balancer before anything else");
}

std::string Text(int family, const uint8_t* at) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return inet_ntop(family, at, text.data(), text.size()) == nullptr ? "" : text.data();
}

ProxyHeader Named(size_t bytes, bool v6, const std::string& address, unsigned port) {
  const std::string host = v6 ? absl::StrCat("ipv6:%5B", address, "%5D") : absl::StrCat("ipv4:", address);
  return {.bytes = bytes, .address = address, .endpoint = absl::StrCat(host, ":", port)};
}

absl::StatusOr<std::optional<ProxyHeader>> Parse2(std::span<const uint8_t> bytes) {
  if (bytes.size() < kFixed2) return std::nullopt;
  const size_t length = kFixed2 + (size_t{bytes[14]} << 8 | bytes[15]);
  const uint8_t command = bytes[12], family = bytes[13];
  if (command >> 4 != 2 || (command & 15) > 1 || family >> 4 > 3 || (family & 15) > 2 || length > kProxyHeaderBytes)
    return NoHeader();
  if (bytes.size() < length) return std::nullopt;
  if ((command & 15) == 0 || (family != 0x11 && family != 0x21)) return ProxyHeader{.bytes = length};
  const bool v6 = family == 0x21;
  const size_t address = v6 ? 16 : 4;
  if (length < kFixed2 + 2 * address + 4) return NoHeader();
  const uint8_t* const at = bytes.data() + kFixed2;
  const unsigned port = unsigned{at[2 * address]} << 8 | at[2 * address + 1];
  return Named(length, v6, Text(v6 ? AF_INET6 : AF_INET, at), port);
}

absl::StatusOr<std::optional<ProxyHeader>> Parse1(std::string_view text) {
  const size_t end = text.substr(0, kLongest1).find("\r\n");
  if (end == std::string_view::npos) {
    if (text.size() >= kLongest1) return NoHeader();
    return std::nullopt;
  }
  const std::vector<std::string> words = absl::StrSplit(absl::string_view(text.data(), end), ' ');
  if (text.substr(0, end).find('\0') != std::string_view::npos) return NoHeader();
  if (words.size() >= 2 && words[1] == "UNKNOWN") return ProxyHeader{.bytes = end + 2};
  unsigned port = 0, own_port = 0;
  if (words.size() != 6 || (words[1] != "TCP4" && words[1] != "TCP6") || !absl::SimpleAtoi(words[4], &port) ||
      !absl::SimpleAtoi(words[5], &own_port) || std::max(port, own_port) > 65'535)
    return NoHeader();
  const bool v6 = words[1] == "TCP6";
  std::array<uint8_t, 16> binary{};
  if (inet_pton(v6 ? AF_INET6 : AF_INET, words[2].c_str(), binary.data()) != 1) return NoHeader();
  return Named(end + 2, v6, Text(v6 ? AF_INET6 : AF_INET, binary.data()), port);
}

}  // namespace

absl::StatusOr<std::optional<ProxyHeader>> ParseProxyHeader(std::span<const uint8_t> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto begins = [text](std::string_view signature) {
    const size_t count = std::min(text.size(), signature.size());
    return text.substr(0, count) == signature.substr(0, count);
  };
  if (begins(kSignature2)) return Parse2(bytes);
  if (begins(kSignature1)) return Parse1(text);
  return NoHeader();
}

}  // namespace atl::guard
