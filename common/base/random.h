// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers (Philox 4x32-10, Salmon et al. 2011): a pure function of (key, counter). Any element
// of any stream can be computed alone, with the same bits on any machine (the last bits of NormalAt excepted) and
// with any number of threads.
#ifndef ATOLL_COMMON_BASE_RANDOM_H_
#define ATOLL_COMMON_BASE_RANDOM_H_

#include <array>
#include <cstdint>
#include <string_view>

namespace atl {

// Ten rounds of Philox 4x32: four independent uniform 32-bit words for one (key, counter).
std::array<uint32_t, 4> Philox(uint64_t key, uint64_t counter_low, uint64_t counter_high = 0);

// Returns the key of the stream with this name for this seed. Streams are independent: another
// number of draws from one stream changes no other stream.
uint64_t StreamKey(uint64_t seed, std::string_view stream);

// Element `index` of stream `key` as a standard normal value, computed in double by Box-Muller and
// rounded once to fp32. The last bits of libm's log and cos may differ between C libraries. The
// coordinator therefore computes initial parameters once and sends them as bytes.
float NormalAt(uint64_t key, uint64_t index);

// A bijection of [0, n) chosen by key: a balanced Feistel network with cycle walking. O(1) expected time, no table.
// Requires index < n, n >= 1.
uint64_t Permute(uint64_t key, uint64_t n, uint64_t index);

// A sequential generator over Philox, for jitter, sampled text and tests. Satisfies UniformRandomBitGenerator.
class Rng {
 public:
  using result_type = uint64_t;
  explicit Rng(uint64_t key) : key_(key) {}
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return UINT64_MAX; }
  uint64_t operator()();
  // Uniform in [0, n); n >= 1.
  uint64_t Below(uint64_t n);
  // Uniform in [0, 1).
  double Uniform();

 private:
  uint64_t key_;
  uint64_t counter_ = 0;
};

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_RANDOM_H_
