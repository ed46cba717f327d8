// SPDX-License-Identifier: Apache-2.0
// Bytes that nobody may guess: hashes of join tokens, proofs of an island. Two of them are compared here alone, in a
// time that tells nothing of where they differ; they have no order and no way into a stream. Plain values.
#ifndef ATOLL_COMMON_BASE_SECRET_H_
#define ATOLL_COMMON_BASE_SECRET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace atl {

// The first letters of every join token. A token in the place of a file's name is known by them, and not repeated.
inline constexpr char kJoinTokenPrefix[] = "atoll1-";
inline constexpr char kTokenInPlaceOfItsFile[] =
    "--join-token is a token itself, which everybody on this machine can read now: revoke it ('atoll token list', "
    "'atoll token revoke'), write a new one to a file of mode 0600 and name that file";

// The bits in which two runs of `size` elements differ, none when they are equal. Every element of both is read, once
// and in order, whatever they hold; the compiler cannot know that an early answer would do.
template <typename A, typename B>
uint8_t DifferingBits(const A& a, const B& b, size_t size) {
  uint8_t bits = 0;
  for (size_t i = 0; i < size; ++i) {
    bits = static_cast<uint8_t>(bits | static_cast<uint8_t>(a[i] ^ b[i]));
    asm volatile("" : "+r"(bits));
  }
  return bits;
}

// N bytes, zero at first.
template <size_t N>
class Secret {
 public:
  Secret() = default;
  explicit Secret(const std::array<uint8_t, N>& bytes) : bytes_(bytes) {}
  // To copy, hash or send; what is to be compared is a Secret on both sides.
  std::span<const uint8_t, N> bytes() const { return bytes_; }
  std::span<uint8_t, N> bytes() { return bytes_; }
  // In constant time.
  friend bool operator==(const Secret& a, const Secret& b) { return DifferingBits(a.bytes_, b.bytes_, N) == 0; }

 private:
  std::array<uint8_t, N> bytes_{};
};

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_SECRET_H_
