// SPDX-License-Identifier: Apache-2.0
// Secrets are compared in constant time: every byte of both is read, wherever they differ.
#include "common/base/secret.h"

#include <gtest/gtest.h>

#include <array>
#include <concepts>
#include <vector>

namespace atl {
namespace {

using Bytes8 = std::array<uint8_t, 8>;

// A Secret is equality comparable only with a Secret. It has no order, and its bytes cannot be compared.
static_assert(std::equality_comparable<Secret<8>>);
static_assert(!std::totally_ordered<Secret<8>>);
static_assert(!std::equality_comparable_with<Secret<8>, Bytes8>);
static_assert(!std::equality_comparable<decltype(std::declval<const Secret<8>&>().bytes())>);

// S25.
TEST(SecretTest, IsEqualInEveryBitOrNotAtAll) {
  const Secret<8> one(Bytes8{1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_TRUE(one == Secret<8>(Bytes8{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_FALSE(one == Secret<8>());
  for (size_t byte = 0; byte < 8; ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      Secret<8> other = one;
      other.bytes()[byte] = static_cast<uint8_t>(other.bytes()[byte] ^ (1u << bit));
      EXPECT_FALSE(one == other) << byte << " " << bit;
      EXPECT_TRUE(one != other);
    }
  }
}

// Bytes that record each read.
struct Watched {
  uint8_t operator[](size_t i) const {
    reads->push_back(i);
    return bytes[i];
  }
  Bytes8 bytes;
  std::vector<size_t>* reads;
};

// S25.
TEST(SecretTest, TheSameBytesAreReadWhateverTheyHold) {
  const std::vector<size_t> all{0, 1, 2, 3, 4, 5, 6, 7};
  const Bytes8 held{9, 9, 9, 9, 9, 9, 9, 9};
  for (size_t differs = 0; differs <= held.size(); ++differs) {
    Bytes8 guess = held;
    for (size_t i = differs; i < guess.size(); ++i) guess[i] = 0;
    std::vector<size_t> of_held, of_guess;
    EXPECT_EQ(DifferingBits(Watched{held, &of_held}, Watched{guess, &of_guess}, held.size()) == 0,
              differs == held.size());
    EXPECT_EQ(of_held, all) << differs;
    EXPECT_EQ(of_guess, all) << differs;
  }
}

}  // namespace
}  // namespace atl
