// SPDX-License-Identifier: Apache-2.0
#include "common/base/random.h"

#include <cmath>

#include "common/base/check.h"

namespace atl {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;

uint32_t Low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t High(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

// One Feistel round function: 32 uniform bits of (key, round, half).
uint64_t Mix(uint64_t key, uint64_t round, uint64_t half) { return Philox(key, half, round)[0]; }

}  // namespace

std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  std::array<uint32_t, 4> c = {Low(counter_low), High(counter_low), Low(counter_high), High(counter_high)};
  uint32_t k0 = Low(key), k1 = High(key);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{kMultiplier0} * c[0];
    const uint64_t p1 = uint64_t{kMultiplier1} * c[2];
    c = {High(p1) ^ c[1] ^ k0, Low(p1), High(p0) ^ c[3] ^ k1, Low(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return c;
}

uint64_t StreamKey(uint64_t seed, std::string_view stream) {
  uint64_t h = 0xcbf29ce484222325;  // FNV-1a of the name, then mixed with the seed
  for (const char ch : stream) h = (h ^ static_cast<unsigned char>(ch)) * 0x100000001b3;
  const auto words = Philox(seed, h);
  return (uint64_t{words[1]} << 32) | words[0];
}

float NormalAt(uint64_t key, uint64_t index) {
  const auto w = Philox(key, index);
  const uint64_t a = (uint64_t{w[0]} << 21) ^ w[1];  // 53 bits
  const uint64_t b = (uint64_t{w[2]} << 21) ^ w[3];
  constexpr uint64_t kMask = (uint64_t{1} << 53) - 1;
  const double u1 = (static_cast<double>(a & kMask) + 1.0) * 0x1p-53;  // (0, 1]
  const double u2 = static_cast<double>(b & kMask) * 0x1p-53;          // [0, 1)
  return static_cast<float>(std::sqrt(-2.0 * std::log(u1)) * std::cos(2.0 * 3.14159265358979323846 * u2));
}

uint64_t Permute(uint64_t key, uint64_t n, uint64_t index) {
  ATOLL_CHECK(n >= 1 && index < n, "Permute needs index < n");
  if (n == 1) return 0;
  int bits = 1;
  while (bits < 32 && (uint64_t{1} << (2 * bits)) < n) ++bits;
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  uint64_t x = index;
  do {  // the domain is at most 4n, so four walks are expected at worst
    uint64_t left = x >> bits, right = x & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t next = left ^ (Mix(key, round, right) & mask);
      left = right;
      right = next;
    }
    x = (left << bits) | right;
  } while (x >= n);
  return x;
}

uint64_t Rng::operator()() {
  const auto w = Philox(key_, counter_++);
  return (uint64_t{w[1]} << 32) | w[0];
}

uint64_t Rng::Below(uint64_t n) {
  ATOLL_CHECK(n >= 1, "Below needs n >= 1");
  const uint64_t limit = UINT64_MAX - UINT64_MAX % n;  // rejection keeps it unbiased
  uint64_t x = (*this)();
  while (x >= limit) x = (*this)();
  return x % n;
}

double Rng::Uniform() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

}  // namespace atl
