// SPDX-License-Identifier: Apache-2.0
// Which handshakes OpenSSL does not see (S34).
#include "common/guard/client_hello_watch.h"

#include <gtest/gtest.h>

#include <vector>

namespace atl::guard {
namespace {

using Octets = std::vector<uint8_t>;

Octets Record(uint8_t type, const Octets& content) {
  Octets out = {type, 3, 1, static_cast<uint8_t>(content.size() >> 8), static_cast<uint8_t>(content.size())};
  out.insert(out.end(), content.begin(), content.end());
  return out;
}

Octets Hello(size_t announced, size_t sent) {
  Octets out = {1, static_cast<uint8_t>(announced >> 16), static_cast<uint8_t>(announced >> 8),
                static_cast<uint8_t>(announced)};
  out.resize(4 + sent, 7);
  return out;
}

Octets operator+(Octets a, const Octets& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// In one piece and byte by byte.
bool Accepts(const Octets& bytes) {
  ClientHelloWatch whole, slow;
  const bool accepted = whole.Take(bytes);
  bool slowly = true;
  for (const uint8_t byte : bytes) slowly = slowly && slow.Take({&byte, 1});
  EXPECT_EQ(accepted, slowly);
  return accepted;
}

TEST(ClientHelloWatch, AHandshakePasses) {
  EXPECT_TRUE(Accepts(Record(22, Hello(300, 300)) + Record(20, {1}) + Record(22, Hello(310, 310)) +
                      Record(23, Octets(3000)) + Record(23, Octets(100)) + Record(21, {2, 40})));
}

TEST(ClientHelloWatch, AHelloThatGoesOnInAnotherRecordIsRefusedAtItsHeader) {
  EXPECT_FALSE(Accepts({22, 3, 1, 0, 4, 1, 2, 1, 68}));
  EXPECT_FALSE(Accepts(Record(22, Hello(300, 299))));
  EXPECT_FALSE(Accepts(Record(22, {1})));
  EXPECT_FALSE(Accepts(Record(22, {})));
  EXPECT_FALSE(Accepts(Record(22, Hello(300, 300)) + Octets{22, 3, 1, 0, 4, 1, 2, 1, 68})) << "the second one";
}

TEST(ClientHelloWatch, AnotherMessageBehindTheHelloIsRefused) {
  EXPECT_FALSE(Accepts(Record(22, Hello(10, 10) + Octets{1, 2, 1, 68})));
}

TEST(ClientHelloWatch, OtherProtocolsAreRefused) {
  EXPECT_FALSE(Accepts({'G', 'E', 'T', ' ', '/'}));
  EXPECT_FALSE(Accepts({0x80, 0x2e, 1, 3, 1})) << "the hello of SSL 2";
}

TEST(ClientHelloWatch, TheBytesOfAHandshakeAreBounded) {
  const Octets record = Record(23, Octets(16'000));
  EXPECT_TRUE(Accepts(record + record + record + record));
  EXPECT_FALSE(Accepts(record + record + record + record + record));
  Octets small;
  for (size_t i = 0; i <= kMostHandshakeBytes / 6; ++i) small = std::move(small) + Record(23, {1});
  EXPECT_FALSE(Accepts(small));
}

}  // namespace
}  // namespace atl::guard
