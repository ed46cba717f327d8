// SPDX-License-Identifier: Apache-2.0
// Ranges of values for tests of kernels, on a card or on the host.
#ifndef ATOLL_TESTS_UNIT_WORKER_GPU_HELD_VALUES_H_
#define ATOLL_TESTS_UNIT_WORKER_GPU_HELD_VALUES_H_

#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "gtest/gtest.h"
#include "worker/device/pass_kernels.h"
#include "worker/gpu/pass_math.h"

namespace atl::pass_cases {

// Memory and kernels, on a card or on the host. The memory is aligned to 16 bytes and lives as long
// as the place.
class Place {
 public:
  virtual ~Place() = default;
  virtual void* Put(std::span<const std::byte> bytes) = 0;
  // Copies back after the kernels' work.
  virtual void Take(const void* from, std::span<std::byte> bytes) = 0;
  virtual PassKernels& kernels() = 0;
};

constexpr std::array<int32_t, 2> kTypes = {ATOLL_GPU_TYPE_FP32, ATOLL_GPU_TYPE_BF16};
constexpr float kBeyond = 12.5f;  // guard value after a range

// Values of a given type, `shift` elements after an aligned address.
class Held {
 public:
  Held(Place& place, int32_t type, std::vector<double> values, size_t shift = 0)
      : place_(place), type_(type), shift_(shift), values_(std::move(values)) {
    std::vector<std::byte> bytes((shift_ + values_.size() + 1) * width());
    values_.push_back(kBeyond);
    for (size_t i = 0; i < values_.size(); ++i) values_[i] = Write(values_[i], &bytes[(shift_ + i) * width()]);
    values_.pop_back();
    memory_ = place_.Put(bytes);
  }
  void* data() const { return static_cast<std::byte*>(memory_) + shift_ * width(); }
  // The initial values, rounded to the type.
  double operator[](size_t i) const { return values_[i]; }
  // The current values; expects an unchanged guard value.
  std::vector<double> Now() const {
    std::vector<std::byte> bytes((values_.size() + 1) * width());
    place_.Take(data(), bytes);
    std::vector<double> out(values_.size() + 1);
    for (size_t i = 0; i < out.size(); ++i) out[i] = Read(&bytes[i * width()]);
    EXPECT_EQ(out.back(), kBeyond) << "a kernel writes beyond its end";
    out.pop_back();
    return out;
  }

 private:
  size_t width() const { return type_ == ATOLL_GPU_TYPE_FP32 ? 4 : 2; }
  double Read(const std::byte* at) const {
    if (type_ == ATOLL_GPU_TYPE_FP32) {
      uint32_t word;
      std::memcpy(&word, at, sizeof word);
      return pass_math::Fp32::Value(word);
    }
    uint16_t word;
    std::memcpy(&word, at, sizeof word);
    return pass_math::Bf16::Value(word);
  }
  double Write(double value, std::byte* at) const {
    const auto x = static_cast<float>(value);
    if (type_ == ATOLL_GPU_TYPE_FP32) {
      const uint32_t word = pass_math::Fp32::WordOf(x);
      std::memcpy(at, &word, sizeof word);
    } else {
      const uint16_t word = pass_math::Bf16::WordOf(x);
      std::memcpy(at, &word, sizeof word);
    }
    return Read(at);
  }
  Place& place_;
  const int32_t type_;
  const size_t shift_;
  std::vector<double> values_;
  void* memory_ = nullptr;
};

// Inherent difference of a result: the exponentials of fp32, plus one rounding for bf16.
inline double SlackOf(int32_t type) { return type == ATOLL_GPU_TYPE_FP32 ? 1e-5 : 1e-5 + 1.02 * 0x1p-8; }

inline void ExpectNear(const std::vector<double>& got, const std::vector<double>& wanted, double slack, double least,
                       const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_NEAR(got[i], wanted[i], slack * std::fabs(wanted[i]) + least) << what << ", element " << i;
  }
}

inline std::vector<double> Spread(uint64_t key, size_t elements, double largest) {
  Rng random(key);
  std::vector<double> out(elements);
  for (double& x : out) x = (random.Uniform() * 2 - 1) * largest;
  return out;
}

}  // namespace atl::pass_cases

#endif  // ATOLL_TESTS_UNIT_WORKER_GPU_HELD_VALUES_H_
