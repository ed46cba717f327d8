// SPDX-License-Identifier: Apache-2.0
#include "common/base/host_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace atl {
namespace {

using testing::ElementsAre;

TEST(HostPort, SplitsHostAndPort) {
  for (const auto& [text, host, port] : std::vector<std::tuple<const char*, const char*, uint32_t>>{
           {"example.org:7700", "example.org", 7700}, {"[::1]:0", "::1", 0}, {"10.0.0.1:65535", "10.0.0.1", 65535}}) {
    const absl::StatusOr<HostPort> parsed = ParseHostPort(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->host, host);
    EXPECT_EQ(parsed->port, port);
  }
}

TEST(HostPort, TextCanBeDialled) {
  for (const char* host : {"10.0.0.7", "a.example.org", "::1", "[::1]", "2001:db8::7"}) {
    std::string text = HostPortText(host, 7070);
    ASSERT_TRUE(CompleteEndpoint(text, 1).ok()) << host;
    EXPECT_EQ(ParseHostPort(text)->host, WithoutBrackets(host));
    EXPECT_EQ(ParseHostPort(text)->port, 7070u);
  }
}

TEST(HostPort, InvalidTextIsRefusedWithTheText) {
  for (const char* text : {"", "example.org", "example.org:", ":7700", "example.org:65536", "example.org:-1",
                           "example.org:7700x", "example.org:123456"}) {
    EXPECT_EQ(ParseHostPort(text).status(), absl::InvalidArgumentError(std::string("'") + text + "' is not HOST:PORT"));
  }
}

TEST(Endpoint, PortIsTheDefaultIfItIsLeftOut) {
  const std::map<std::string, std::string> whole = {{"example.org:7700", "example.org:7700"},
                                                    {"example.org", "example.org:7070"},
                                                    {"10.0.0.1", "10.0.0.1:7070"},
                                                    {"[2001:db8::7]:7700", "[2001:db8::7]:7700"},
                                                    {"[::1]", "[::1]:7070"}};
  for (const auto& [text, full] : whole) {
    std::string endpoint = text;
    EXPECT_EQ(CompleteEndpoint(endpoint, kControlPort), absl::OkStatus());
    EXPECT_EQ(endpoint, full);
  }
}

TEST(Endpoint, InvalidTextIsRefusedWithTheRightForm) {
  const auto why = [](std::string text) {
    const absl::Status status = CompleteEndpoint(text, kControlPort);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(status.message());
  };
  EXPECT_EQ(why("http://example.org:7700"),
            "'http://example.org:7700' is not HOST or HOST:PORT: it must have no scheme and no '/'");
  EXPECT_EQ(why("::1:7700"), "'::1:7700' is not HOST or HOST:PORT: an IPv6 address goes in brackets, [::1]:7700");
  EXPECT_EQ(why("2001:db8::7"),
            "'2001:db8::7' is not HOST or HOST:PORT: an IPv6 address goes in brackets, [2001:db8::7]");
  EXPECT_EQ(why("fe80::a"), "'fe80::a' is not HOST or HOST:PORT: an IPv6 address goes in brackets, [fe80::a]");
  for (const char* text : {"", ":7070", "h:", "h:0", "h:65536", "h:x", "[]", "[::1]x", "[::1]x:1"})
    EXPECT_EQ(why(text), std::string("'") + text + "' is not HOST or HOST:PORT, with a port from 1 to 65535");
}

TEST(HostPort, WithoutPortStaysAsItIs) {
  EXPECT_EQ(WithoutPort("[::1]:7700"), "[::1]");
  EXPECT_EQ(WithoutPort("ipv4:10.0.0.7:40112"), "ipv4:10.0.0.7");
  EXPECT_EQ(WithoutPort("example.org"), "example.org");
}

TEST(NetworksOf, OfIpv6) {
  for (const char* address :
       {"2001:db8:1:2::7", "2001:db8:1:2:3:4:5:6", "ipv6:%5B2001:db8:1:2::9%5D", "[2001:db8:1:2::]"})
    EXPECT_THAT(NetworksOf(address), ElementsAre("2001:db8::/32", "2001:db8:1::/48", "2001:db8:1:2::/64"));
  EXPECT_EQ(NetworksOf("2001:db8:1:3::7").back(), "2001:db8:1:3::/64");
  EXPECT_EQ(NetworksOf("ipv6:%5Bfe80::1%252%5D").back(), "fe80::/64");
  EXPECT_EQ(NetworksOf("::1").back(), "::/64");
}

TEST(NetworksOf, OfIpv4) {
  for (const char* address : {"203.0.113.7", "::ffff:203.0.113.7", "ipv6:%5B::ffff:203.0.113.7%5D"})
    EXPECT_THAT(NetworksOf(address), ElementsAre("203.0.0.0/16", "203.0.113.0/24", "203.0.113.7/32"));
}

TEST(NetworksOf, EverythingElseIsItself) {
  for (const char* address : {"ipv4:10.0.0.7", "unix:/run/atoll", "a", ""})
    EXPECT_THAT(NetworksOf(address), testing::Each(address));
}

TEST(HostPort, LoopbackIsThisMachineAlone) {
  for (const char* host : {"127.0.0.1", "127.8.9.10", "::1", "[::1]", "localhost"}) EXPECT_TRUE(IsLoopbackHost(host));
  for (const char* host : {"10.0.0.1", "127.example.org", "127.0.0.example.org", "0.0.0.0", "127.0.1", ""})
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
}

}  // namespace
}  // namespace atl
