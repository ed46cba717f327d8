// SPDX-License-Identifier: Apache-2.0
// Hashes and checksums. SHA-256 names content that people and manifests see, and hashes join tokens and the proofs of
// an island. XXH3 (128 bit) names contributions, updates and the content of fragments. CRC-32C protects frames and
// log records. XXH3 and CRC-32C detect accidental damage only, and protect no secret.
#ifndef ATOLL_COMMON_BASE_HASH_H_
#define ATOLL_COMMON_BASE_HASH_H_

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace atl {

using Bytes = std::span<const std::byte>;

// Views a span of a trivially copyable type, or a string, as bytes.
template <typename T>
Bytes AsBytes(std::span<const T> s) {
  return std::as_bytes(s);
}
inline Bytes AsBytes(const std::string& s) { return std::as_bytes(std::span(s.data(), s.size())); }

// A 256-bit content name. Ordered and comparable; Hex() is 64 lower-case digits.
struct Sha256 {
  std::array<uint8_t, 32> bytes{};
  friend auto operator<=>(const Sha256&, const Sha256&) = default;
  std::string Hex() const;
  bool IsZero() const { return *this == Sha256{}; }
  // Returns false, and leaves `out` undefined, unless `hex` is exactly 64 hexadecimal digits, of either case.
  static bool FromHex(const std::string& hex, Sha256& out);
};
Sha256 Sha256Of(Bytes data);

// Incremental SHA-256. Not thread-safe. Update any number of times, then Finish once.
class Sha256Hasher {
 public:
  Sha256Hasher();
  ~Sha256Hasher();
  Sha256Hasher(Sha256Hasher&&) noexcept;
  Sha256Hasher& operator=(Sha256Hasher&&) noexcept;
  void Update(Bytes data);
  Sha256 Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// XXH3-128: the digest of a contribution or an encoded update, and the node of a content tree.
struct Digest {
  uint64_t high = 0, low = 0;
  friend auto operator<=>(const Digest&, const Digest&) = default;
  std::string Hex() const;  // 32 lower-case digits
  static bool FromHex(const std::string& hex, Digest& out);
  bool IsZero() const { return high == 0 && low == 0; }
};
Digest DigestOf(Bytes data);

// Incremental XXH3-128. Not thread-safe.
class DigestHasher {
 public:
  DigestHasher();
  ~DigestHasher();
  DigestHasher(DigestHasher&&) noexcept;
  DigestHasher& operator=(DigestHasher&&) noexcept;
  void Update(Bytes data);
  Digest Finish() const;  // may be called at any time, also before further updates

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Content hash of a fragment at a version: the root of a tree over the hashes of its leaves (4 KiB of
// fp32 bits each), the version and the layout's digest. A leaf can be checked alone, and replicas are
// compared by one value.
constexpr size_t kLeafBytes = 4096;
Digest ContentHash(std::span<const float> fragment, uint64_t version, Digest layout);

// Computes ContentHash from bytes (little-endian fp32) in pieces of any size. Not thread-safe.
class ContentHasher {
 public:
  void Update(Bytes data);
  Digest Finish(uint64_t version, Digest layout);  // once, after all bytes

 private:
  DigestHasher root_;
  std::vector<std::byte> leaf_;  // bytes of the incomplete leaf
};

// CRC-32C (Castagnoli). `crc` is the result of the previous call; start with 0.
uint32_t Crc32c(uint32_t crc, Bytes data);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_HASH_H_
