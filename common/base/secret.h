// SPDX-License-Identifier: Apache-2.0
// Secret bytes, such as hashes of join tokens and proofs of an island. The comparison of two Secrets takes constant
// time; a Secret has no order and no output operator. Plain values.
#ifndef ATOLL_COMMON_BASE_SECRET_H_
#define ATOLL_COMMON_BASE_SECRET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace atl {

// First letters of every join token. Used to recognise a token given in place of a file name, which
// is then not printed.
inline constexpr char kJoinTokenPrefix[] = "atoll1-";
inline constexpr char kTokenInPlaceOfItsFile[] =
    "--join-token must name a file, but it is a token, which every user of this machine can read now: revoke the token "
    "('atoll token list', "
    "'atoll token revoke'), write a new token to a file of mode 0600 and give that file";

// Returns the bits in which two runs of `size` elements differ; 0 when they are equal. Reads every
// element of both once, in order. The asm prevents the compiler from stopping early.
template <typename A, typename B>
uint8_t DifferingBits(const A& a, const B& b, size_t size) {
  uint8_t bits = 0;
  for (size_t i = 0; i < size; ++i) {
    bits = static_cast<uint8_t>(bits | static_cast<uint8_t>(a[i] ^ b[i]));
    asm volatile("" : "+r"(bits));
  }
  return bits;
}

// N bytes, initially zero.
template <size_t N>
class Secret {
 public:
  Secret() = default;
  explicit Secret(const std::array<uint8_t, N>& bytes) : bytes_(bytes) {}
  // For copying, hashing and sending. Comparisons need a Secret on both sides.
  std::span<const uint8_t, N> bytes() const { return bytes_; }
  std::span<uint8_t, N> bytes() { return bytes_; }
  // Constant time.
  friend bool operator==(const Secret& a, const Secret& b) { return DifferingBits(a.bytes_, b.bytes_, N) == 0; }

 private:
  std::array<uint8_t, N> bytes_{};
};

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_SECRET_H_
