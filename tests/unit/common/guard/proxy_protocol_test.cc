// SPDX-License-Identifier: Apache-2.0
// The address in a load balancer's header, in both versions of the protocol.
#include "common/guard/proxy_protocol.h"

#include <gtest/gtest.h>

#include "tests/unit/common/guard/http2_bytes.h"

namespace atl::guard {
namespace {

const std::string kSignature("\r\n\r\n\0\r\nQUIT\n", 12);

std::string Version2(uint8_t command, uint8_t family, const std::string& addresses) {
  return kSignature +
         std::string{static_cast<char>(command), static_cast<char>(family), 0, static_cast<char>(addresses.size())} +
         addresses;
}

// Parses a header that is complete, and checks that every shorter prefix needs more bytes.
ProxyHeader Whole(const std::string& header) {
  const std::string bytes = header + "\x16\x03\x01 tls";
  for (size_t count = 0; count < header.size(); ++count) {
    const auto part = ParseProxyHeader(AsSpan(std::string_view(bytes).substr(0, count)));
    EXPECT_TRUE(part.ok() && !part->has_value()) << count;
  }
  const auto parsed = ParseProxyHeader(AsSpan(bytes));
  EXPECT_TRUE(parsed.ok() && parsed->has_value());
  if (!parsed.ok() || !parsed->has_value()) return {};
  EXPECT_EQ((*parsed)->bytes, header.size());
  return **parsed;
}

TEST(ProxyHeader, NamesTheAddress) {
  EXPECT_EQ(Whole("PROXY TCP4 203.0.113.7 10.0.0.1 40112 7070\r\n").endpoint, "ipv4:203.0.113.7:40112");
  EXPECT_EQ(Whole("PROXY TCP6 2001:DB8::7 ::1 40112 7070\r\n").endpoint, "ipv6:%5B2001:db8::7%5D:40112");
  const std::string v4("\xcb\x00\x71\x07\x0a\x00\x00\x01\x9c\xb0\x1b\x9e", 12);
  EXPECT_EQ(Whole(Version2(0x21, 0x11, v4)).endpoint, "ipv4:203.0.113.7:40112");
  EXPECT_EQ(Whole(Version2(0x21, 0x11, v4 + "more")).address, "203.0.113.7");
  const std::string v6 = std::string("\x20\x01\x0d\xb8", 4) + std::string(11, '\0') + "\x07" + std::string(16, '\0') +
                         std::string("\x9c\xb0\x1b\x9e", 4);
  EXPECT_EQ(Whole(Version2(0x21, 0x21, v6)).endpoint, "ipv6:%5B2001:db8::7%5D:40112");
}

TEST(ProxyHeader, ABalancerMaySpeakForItself) {
  EXPECT_EQ(Whole("PROXY UNKNOWN\r\n").address, "");
  EXPECT_EQ(Whole(Version2(0x20, 0, "")).address, "");
}

TEST(ProxyHeader, EverythingElseIsRefused) {
  for (const std::string& bytes :
       {std::string("\x16\x03\x01"), std::string("GET / HTTP/1.1"), std::string("PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n"),
        std::string("PROXY TCP4 1.2.3.4 1.2.3.4 70000 2\r\n"), std::string("PROXY TCP4 1.2.3.4 1.2.3.4 7 99999\r\n"),
        std::string("PROXY TCP4 1.2.3.4\r\n"), std::string("PROXY TCP4 1.2.3.4\0 1.2.3.4 1 2\r\n", 33),
        "PROXY TCP4 " + std::string(200, 'x'), Version2(0x21, 0x91, std::string(12, 'x')),
        Version2(0x31, 0x11, std::string(12, 'x')), Version2(0x22, 0x11, std::string(12, 'x')),
        Version2(0x21, 0x11, "short"), kSignature + std::string("\x21\x11\xff\xff", 4)}) {
    EXPECT_FALSE(ParseProxyHeader(AsSpan(bytes)).ok()) << bytes;
  }
}

}  // namespace
}  // namespace atl::guard
