// SPDX-License-Identifier: Apache-2.0
#include "common/base/hash.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "common/base/crc32c.h"
#include "common/base/random.h"

namespace atl {
namespace {

std::string RandomText(size_t bytes) {
  Rng rng(StreamKey(bytes, "hash test"));
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(rng());
  return text;
}

// RFC 3720, B.4, and the check value of the CRC catalogues.
TEST(Crc32c, KnownAnswers) {
  EXPECT_EQ(Crc32c(0, AsBytes(std::string("123456789"))), 0xE3069283u);
  EXPECT_EQ(Crc32c(0, AsBytes(std::string(32, '\0'))), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(0, AsBytes(std::string(32, '\xff'))), 0x62A8AB43u);
  EXPECT_EQ(Crc32c(0, {}), 0u);
}

TEST(Crc32c, CarriesOnAtAnyPoint) {
  const std::string text = RandomText(300);
  const uint32_t whole = Crc32c(0, AsBytes(text));
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const uint32_t first = Crc32c(0, AsBytes(text.substr(0, cut)));
    ASSERT_EQ(Crc32c(first, AsBytes(text.substr(cut))), whole) << cut;
  }
}

// Each implementation processes long inputs in its own steps, from any start.
TEST(Crc32c, EveryFormComesToTheSameAsBitByBit) {
  const auto by_bits = [](Bytes data) {
    uint32_t c = ~0u;
    for (const std::byte byte : data) {
      c ^= static_cast<uint8_t>(byte);
      for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) ? 0x82F63B78u : 0u);
    }
    return c;
  };
  const std::string text = RandomText(10'000);
  for (const Crc32cForm& form : Crc32cForms()) {
    for (const size_t bytes : {0u, 7u, 511u, 512u, 513u, 767u, 768u, 1535u, 1536u, 1543u, 3072u, 4608u, 9'990u}) {
      for (const size_t begin : {0u, 1u, 8u}) {
        const Bytes part = AsBytes(text).subspan(begin, bytes);
        ASSERT_EQ(form.run(~0u, part), by_bits(part)) << form.name << ", " << bytes << " bytes from " << begin;
      }
    }
  }
}

TEST(Crc32c, SeesEveryFlippedBit) {
  std::string text = RandomText(64);
  const uint32_t whole = Crc32c(0, AsBytes(text));
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_NE(Crc32c(0, AsBytes(text)), whole) << bit;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
  }
}

// FIPS 180-2, appendix B.
TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(Sha256Of({}).Hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Of(AsBytes(std::string("abc"))).Hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Of(AsBytes(std::string(1'000'000, 'a'))).Hex(),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheWhole) {
  const std::string text = RandomText(1000);
  Sha256Hasher hasher;
  for (size_t at = 0; at < text.size(); at += 7) hasher.Update(AsBytes(text.substr(at, 7)));
  EXPECT_EQ(hasher.Finish(), Sha256Of(AsBytes(text)));
}

TEST(Sha256, HexThereAndBack) {
  const Sha256 hash = Sha256Of(AsBytes(std::string("x")));
  Sha256 back;
  EXPECT_TRUE(Sha256::FromHex(hash.Hex(), back));
  EXPECT_EQ(back, hash);
  EXPECT_FALSE(back.IsZero());
  for (const std::string& bad : {std::string(), hash.Hex().substr(1), hash.Hex() + "0", std::string(63, '0') + "g"}) {
    EXPECT_FALSE(Sha256::FromHex(bad, back)) << bad;
  }
}

TEST(Digest, KnownAnswer) { EXPECT_EQ(DigestOf({}).Hex(), "99aa06d3014798d86001c324468d497f"); }

TEST(Digest, PiecesGiveTheWholeAndFinishMayComeBetween) {
  const std::string text = RandomText(5000);
  DigestHasher hasher;
  hasher.Update(AsBytes(text.substr(0, 1234)));
  EXPECT_EQ(hasher.Finish(), DigestOf(AsBytes(text.substr(0, 1234))));
  hasher.Update(AsBytes(text.substr(1234)));
  EXPECT_EQ(hasher.Finish(), DigestOf(AsBytes(text)));
}

TEST(Digest, HexThereAndBack) {
  const Digest digest{0x0123456789abcdef, 0xfedcba9876543210};
  EXPECT_EQ(digest.Hex(), "0123456789abcdeffedcba9876543210");
  Digest back;
  EXPECT_TRUE(Digest::FromHex(digest.Hex(), back));
  EXPECT_EQ(back, digest);
  EXPECT_FALSE(Digest::FromHex("0123", back));
}

// The tree computed explicitly: leaves of 4 KiB, then version and layout.
TEST(ContentHash, IsTheTreeThatTheFormatPageDescribes) {
  const std::vector<float> fragment(2500, 1.5f);  // two whole leaves and a partial one
  const Digest layout{5, 6};
  DigestHasher root;
  for (const size_t from : {size_t{0}, size_t{1024}, size_t{2048}}) {
    const size_t count = std::min<size_t>(1024, fragment.size() - from);
    const Digest leaf = DigestOf(std::as_bytes(std::span(fragment).subspan(from, count)));
    const uint64_t words[] = {leaf.high, leaf.low};
    root.Update(std::as_bytes(std::span(words)));
  }
  const uint64_t tail[] = {9, layout.high, layout.low};
  root.Update(std::as_bytes(std::span(tail)));
  EXPECT_EQ(ContentHash(fragment, 9, layout), root.Finish());
}

TEST(ContentHash, SeesEveryBitTheVersionAndTheLayout) {
  std::vector<float> fragment(1030, 0.25f);
  const Digest hash = ContentHash(fragment, 1, {});
  EXPECT_NE(ContentHash(fragment, 2, {}), hash);
  EXPECT_NE(ContentHash(fragment, 1, {0, 1}), hash);
  EXPECT_NE(ContentHash(std::span(fragment).first(1029), 1, {}), hash);
  for (const size_t element : {0u, 1023u, 1024u, 1029u}) {
    for (uint32_t bit = 0; bit < 32; ++bit) {
      const float before = fragment[element];
      fragment[element] = std::bit_cast<float>(std::bit_cast<uint32_t>(before) ^ (1u << bit));
      ASSERT_NE(ContentHash(fragment, 1, {}), hash) << element << " bit " << bit;
      fragment[element] = before;
    }
  }
}

TEST(ContentHasher, PiecesOfAnySizeGiveTheSameHash) {
  for (const size_t elements : {size_t{1}, size_t{1023}, size_t{1024}, size_t{1025}, size_t{5000}}) {
    std::vector<float> fragment(elements);
    for (size_t i = 0; i < elements; ++i) fragment[i] = static_cast<float>(i) * 0.5f;
    const Bytes bytes = std::as_bytes(std::span(fragment));
    for (const size_t piece : {size_t{1}, size_t{7}, size_t{4096}, size_t{4097}, size_t{100'000}}) {
      ContentHasher hasher;
      for (size_t at = 0; at < bytes.size(); at += piece) {
        hasher.Update(bytes.subspan(at, std::min(piece, bytes.size() - at)));
      }
      EXPECT_EQ(hasher.Finish(3, {1, 2}), ContentHash(fragment, 3, {1, 2})) << elements << " by " << piece;
    }
  }
}

TEST(ContentHash, DistinguishesMinusZeroFromZero) {
  EXPECT_NE(ContentHash(std::vector<float>{0.0f}, 1, {}), ContentHash(std::vector<float>{-0.0f}, 1, {}));
}

}  // namespace
}  // namespace atl
