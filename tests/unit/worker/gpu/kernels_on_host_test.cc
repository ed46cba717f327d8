// SPDX-License-Identifier: Apache-2.0
// The plugin's kernels with threads, warps and barriers, run on the host (cuda_on_host): the bytes,
// bits and sums of the host's own code, at aligned and odd addresses, and no write beyond the end
// of a range.
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/gpu/adamw_cases.h"
#include "tests/unit/worker/gpu/codec_cases.h"
#include "tests/unit/worker/gpu/form_cases.h"
#include "tests/unit/worker/gpu/host_pass_kernels.h"
#include "tests/unit/worker/gpu/pass_cases.h"
#include "worker/device/step_kernels.h"
#include "worker/gpu/codec_kernels.h"
#include "worker/gpu/form_kernels.h"
#include "worker/gpu/form_math.h"
#include "worker/gpu/step_kernels.h"

namespace atl {
namespace {

using codec_cases::BitsOfAll;
using codec_cases::FirstDifference;
using codec_cases::kAllCodecs;
using form_cases::OfPlugin;

// Around the block sizes of the formats and of the sums, and more than one block.
constexpr std::array<size_t, 15> kSizes = {1, 2, 3, 5, 31, 32, 33, 63, 127, 128, 129, 300, 1000, 4097, 9001};
constexpr float kBeyond = 12.5f;  // guard value after a range

// Values `shift` elements after an address aligned to 16 bytes, followed by a guard value.
class Range {
 public:
  Range(size_t shift, std::vector<float> values) : shift_(shift), elements_(values.size()) {
    memory_.resize((shift + elements_ + 1 + 3) / 4);
    std::ranges::copy(values, data());
    data()[elements_] = kBeyond;
  }
  float* data() { return memory_.data()->values + shift_; }
  std::vector<float> Taken() {
    EXPECT_EQ(data()[elements_], kBeyond) << "a kernel writes beyond its end";
    return {data(), data() + elements_};
  }

 private:
  struct alignas(16) Four {
    float values[4];
  };
  const size_t shift_, elements_;
  std::vector<Four> memory_;
};

void ExpectSameBits(const std::vector<float>& got, const std::vector<float>& wanted, const std::string& what) {
  EXPECT_TRUE(BitsOfAll(got) == BitsOfAll(wanted))
      << what << ", element " << FirstDifference(BitsOfAll(got), BitsOfAll(wanted));
}

void ExpectSameCoding(CodecKind kind, const std::vector<float>& values, size_t shift) {
  const std::string what = absl::StrCat(CodecName(kind), ", ", values.size(), " elements, shift ", shift);
  const std::vector<std::byte> wanted = codec_cases::ReferenceBytes(kind, values);
  Range in(shift, values);
  std::vector<std::byte> bytes(wanted.size() + shift + 1, std::byte{0xa5});
  ASSERT_EQ(gpu::EncodeOnDevice(OfPlugin(kind), in.data(), values.size(), bytes.data() + shift, nullptr), cudaSuccess);
  EXPECT_EQ(bytes.back(), std::byte{0xa5}) << what << ": writes beyond its end";
  const std::vector<std::byte> got(bytes.begin() + static_cast<std::ptrdiff_t>(shift), bytes.end() - 1);
  EXPECT_TRUE(got == wanted) << what << ", byte " << FirstDifference(got, wanted);

  Range out(shift, std::vector<float>(values.size(), kBeyond));
  ASSERT_EQ(gpu::DecodeOnDevice(OfPlugin(kind), bytes.data() + shift, out.data(), values.size(), nullptr), cudaSuccess);
  const std::vector<uint32_t> bits = codec_cases::ReferenceBits(kind, wanted, values.size());
  EXPECT_TRUE(BitsOfAll(out.Taken()) == bits) << what << ", decoded";
}

TEST(KernelsOnHost, CodecsAreThoseOfTheHost) {
  for (const CodecKind kind : kAllCodecs) {
    for (const size_t size : kSizes) ExpectSameCoding(kind, codec_cases::Random(size, size), size % 5);
    ExpectSameCoding(kind, codec_cases::Ties(), 0);
  }
}

TEST(KernelsOnHost, UpdatesAreThoseOfTheHost) {
  const atoll_gpu_adamw factors = FactorsOf({3e-3, 0.1, 0.9, 0.95, 1e-8, 5, 0.37});
  for (const size_t size : kSizes) {
    const size_t shift = size % 2;
    const bool clear = size % 3 == 0, with_rounded = size % 5 != 0;
    adamw_cases::State state = adamw_cases::RandomState(size, size);
    Range parameters(shift, state.parameters), gradients(shift, state.gradients), first(shift, state.first),
        second(shift, state.second), rounded(shift, std::vector<float>((size + 1) / 2));
    auto* const words = reinterpret_cast<uint16_t*>(rounded.data());
    ASSERT_EQ(
        gpu::AdamwOnDevice(
            factors, {parameters.data(), gradients.data(), first.data(), second.data(), with_rounded ? words : nullptr},
            size, clear, nullptr),
        cudaSuccess);
    adamw_cases::Update(factors, state);
    const std::string what = absl::StrCat(size, " elements");
    ExpectSameBits(parameters.Taken(), state.parameters, "parameters of " + what);
    ExpectSameBits(gradients.Taken(), clear ? std::vector<float>(size) : state.gradients, "gradients of " + what);
    ExpectSameBits(first.Taken(), state.first, "first moments of " + what);
    ExpectSameBits(second.Taken(), state.second, "second moments of " + what);
    for (size_t i = 0; with_rounded && i < size; ++i) {
      ASSERT_EQ(words[i], adamw_math::Rounded(state.parameters[i])) << "rounded element " << i << " of " << what;
    }
    rounded.Taken();
  }
}

TEST(KernelsOnHost, SumsAreThoseOfTheHost) {
  for (const size_t size : kSizes) {
    const std::vector<float> values = adamw_cases::RandomState(size, size).parameters;
    const std::vector<float> wanted = adamw_cases::Sums(values);
    Range in(size % 3, values), sums(0, std::vector<float>(wanted.size()));
    ASSERT_EQ(gpu::SumSquaresOnDevice(in.data(), size, sums.data(), nullptr), cudaSuccess);
    ExpectSameBits(sums.Taken(), wanted, absl::StrCat("sums of ", size, " elements"));
  }
}

void ExpectSameContribution(CodecKind kind, size_t size, bool with_residual) {
  const form_cases::Case c = form_cases::Random(size, size);
  form_cases::Formed got = form_cases::RoomFor(kind, size);
  Range lost(0, std::vector<float>(size));
  std::vector<uint64_t> words((got.encoded.size() + 7) / 8);  // aligned to 8
  ASSERT_EQ(gpu::FormOnDevice(OfPlugin(kind),
                              {c.local.data(), c.outer.data(), with_residual ? c.residual.data() : nullptr, lost.data(),
                               words.data(), got.sums.data()},
                              size, nullptr),
            cudaSuccess);
  std::memcpy(got.encoded.data(), words.data(), got.encoded.size());
  const form_cases::Formed wanted = form_cases::ByTheHost(kind, c, with_residual);
  const std::string what = absl::StrCat(CodecName(kind), ", ", size, " elements");
  EXPECT_TRUE(got.encoded == wanted.encoded) << what << ", byte " << FirstDifference(got.encoded, wanted.encoded);
  ExpectSameBits(lost.Taken(), wanted.lost, what + ", what is lost");
  ASSERT_EQ(got.sums.size(), wanted.sums.size());
  for (size_t b = 0; b < got.sums.size(); ++b) {
    EXPECT_EQ(std::memcmp(&got.sums[b], &wanted.sums[b], sizeof got.sums[b]), 0) << what << ", sums of block " << b;
  }
}

TEST(KernelsOnHost, ContributionsAreThoseOfTheHost) {
  for (const CodecKind kind : kAllCodecs) {
    for (const size_t size : {size_t{1}, size_t{33}, size_t{300}, size_t{4096}, size_t{20001}}) {
      ExpectSameContribution(kind, size, size % 2 == 0);
    }
  }
}

TEST(KernelsOnHost, MergesAreThoseOfTheHost) {
  const form_cases::Case c = form_cases::Random(7, 5000);
  for (const float own : {0.0f, 0.25f, 1.0f}) {
    std::vector<float> wanted = c.local;
    for (size_t i = 0; i < wanted.size(); ++i) {
      wanted[i] = own == 0.0f ? c.outer[i] : form_math::Merged(own, 1 - own, c.local[i], c.outer[i]);
    }
    Range local(1, c.local);
    ASSERT_EQ(gpu::MergeOnDevice(own, 1 - own, c.outer.data(), local.data(), wanted.size(), nullptr), cudaSuccess);
    ExpectSameBits(local.Taken(), wanted, absl::StrCat("own share ", own));
  }
}

// Memory for the pass cases on the host.
class HostPlace final : public pass_cases::Place {
 public:
  void* Put(std::span<const std::byte> bytes) override {
    held_.emplace_back((bytes.size() + sizeof(Sixteen) - 1) / sizeof(Sixteen));
    std::memcpy(held_.back().data(), bytes.data(), bytes.size());
    return held_.back().data();
  }
  void Take(const void* from, std::span<std::byte> bytes) override { std::memcpy(bytes.data(), from, bytes.size()); }
  PassKernels& kernels() override { return kernels_; }

 private:
  struct alignas(16) Sixteen {
    std::byte bytes[16];
  };
  std::vector<std::vector<Sixteen>> held_;
  HostPassKernels kernels_;
};

TEST(KernelsOnHost, ScoresAreJudged) {
  HostPlace place;
  pass_cases::ExpectJudged(place);
}

TEST(KernelsOnHost, ScoresThatAreNotFiniteMakeNoLoss) {
  HostPlace place;
  pass_cases::ExpectNotFinite(place);
}

TEST(KernelsOnHost, GatesAndTheirGradients) {
  HostPlace place;
  pass_cases::ExpectGated(place);
}

TEST(KernelsOnHost, HeadsAreTurnedAndTurnedBack) {
  HostPlace place;
  pass_cases::ExpectTurned(place);
}

TEST(KernelsOnHost, NothingIsDoneToNothingAndAnUnknownCodecIsRefused) {
  const auto unknown = static_cast<atoll_gpu_codec>(7);
  EXPECT_EQ(gpu::EncodeOnDevice(unknown, nullptr, 0, nullptr, nullptr), cudaSuccess);
  EXPECT_EQ(gpu::FormOnDevice(ATOLL_GPU_CODEC_FP32, {}, 0, nullptr), cudaSuccess);
  float one = 1;
  EXPECT_EQ(gpu::EncodeOnDevice(unknown, &one, 1, &one, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(gpu::DecodeOnDevice(unknown, &one, &one, 1, nullptr), cudaErrorInvalidValue);
  HostPassKernels pass;
  EXPECT_TRUE(pass.Judge({}).ok());
  EXPECT_FALSE(pass.Judge({7, 0, &one, nullptr, &one, 1, 1, 1, 0}).ok());
  EXPECT_FALSE(pass.Gate({7, 1, 1, &one, nullptr, &one}).ok());
  EXPECT_FALSE(pass.Turn({.type = 0, .sequences = 1, .length = 1, .heads = 1, .head_dim = 3}).ok());
}

}  // namespace
}  // namespace atl
