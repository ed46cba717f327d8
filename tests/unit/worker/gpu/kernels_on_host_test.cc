// The plugin's kernels themselves, threads, warps and barriers and all, run on the host (cuda_on_host): the bytes, bits
// and sums of the host's own code, at aligned and odd addresses, and nothing beyond the end of a range.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/gpu/adamw_cases.h"
#include "tests/unit/worker/gpu/codec_cases.h"
#include "tests/unit/worker/gpu/form_cases.h"
#include "worker/device/step_kernels.h"
#include "worker/gpu/codec_kernels.h"
#include "worker/gpu/form_kernels.h"
#include "worker/gpu/form_math.h"
#include "worker/gpu/pass_kernels.h"
#include "worker/gpu/step_kernels.h"

namespace atl {
namespace {

using codec_cases::BitsOfAll;
using codec_cases::FirstDifference;
using codec_cases::kAllCodecs;
using form_cases::OfPlugin;

// Around the blocks of the formats and of the sums, and of more blocks than one.
constexpr std::array<size_t, 15> kSizes = {1, 2, 3, 5, 31, 32, 33, 63, 127, 128, 129, 300, 1000, 4097, 9001};
constexpr float kBeyond = 12.5f;  // what lies behind a range

// Values at `shift` elements behind an address that is aligned to 16 bytes, and one that is not to be touched behind.
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

// Values as a type holds them, at `shift` of them behind an aligned address; none is to be touched behind.
class Held {
 public:
  Held(int32_t type, size_t shift, const std::vector<double>& values)
      : type_(type), shift_(shift), elements_(values.size()), memory_((shift + elements_ + 1 + 3) / 4 + 1) {
    for (size_t i = 0; i < elements_; ++i) Put(i, values[i]);
    Put(elements_, kBeyond);
  }
  void* data() { return At(0); }
  double operator[](size_t i) const {
    return type_ == ATOLL_GPU_TYPE_FP32
               ? *static_cast<const float*>(At(i))
               : codec_math::FloatOf(codec_math::BitsFromBfloat16(*static_cast<const uint16_t*>(At(i))));
  }
  void ExpectUntouchedBehind() const { EXPECT_EQ((*this)[elements_], kBeyond) << "a kernel writes beyond its end"; }

 private:
  struct alignas(16) Four {
    float values[4];
  };
  size_t width() const { return type_ == ATOLL_GPU_TYPE_FP32 ? 4 : 2; }
  void* At(size_t i) { return reinterpret_cast<std::byte*>(memory_.data()) + (shift_ + i) * width(); }
  const void* At(size_t i) const { return const_cast<Held*>(this)->At(i); }
  void Put(size_t i, double value) {
    const auto x = static_cast<float>(value);
    if (type_ == ATOLL_GPU_TYPE_FP32) {
      *static_cast<float*>(At(i)) = x;
    } else {
      *static_cast<uint16_t*>(At(i)) = adamw_math::Rounded(x);
    }
  }
  const int32_t type_;
  const size_t shift_, elements_;
  std::vector<Four> memory_;
};

constexpr std::array<int32_t, 2> kTypes = {ATOLL_GPU_TYPE_FP32, ATOLL_GPU_TYPE_BF16};
// What a result may differ by, of 1: the roundings of fp32, or one of bf16.
double SlackOf(int32_t type) { return type == ATOLL_GPU_TYPE_FP32 ? 1e-5 : 0x1p-8; }

std::vector<double> Spread(uint64_t key, size_t elements, double largest) {
  Rng random(key);
  std::vector<double> out(elements);
  for (double& x : out) x = (random.Uniform() * 2 - 1) * largest;
  return out;
}

struct JudgeCase {
  int32_t type = ATOLL_GPU_TYPE_FP32;
  size_t rows = 3, vocab = 1, shift = 0;
  double scale = 0.25, z_loss = 0;
  bool gradients = true;
};

void ExpectJudged(const JudgeCase& c) {
  const std::string what = absl::StrCat("type ", c.type, ", ", c.vocab, " scores, shift ", c.shift);
  Held scores(c.type, c.shift, Spread(c.vocab, c.rows * c.vocab, 9));
  std::vector<double> before(c.rows * c.vocab);
  for (size_t i = 0; i < before.size(); ++i) before[i] = scores[i];
  std::vector<int64_t> targets(c.rows);
  for (size_t row = 0; row < c.rows; ++row) targets[row] = static_cast<int64_t>((row * 7919 + c.vocab - 1) % c.vocab);
  std::vector<float> losses(c.rows + 1, kBeyond);
  ASSERT_EQ(gpu::JudgeOnDevice({c.type, c.gradients ? 1 : 0, scores.data(), targets.data(), losses.data(), c.rows,
                                c.vocab, static_cast<float>(c.scale), static_cast<float>(c.z_loss)},
                               nullptr),
            cudaSuccess);
  scores.ExpectUntouchedBehind();
  EXPECT_EQ(losses.back(), kBeyond) << what;
  for (size_t row = 0; row < c.rows; ++row) {
    const auto of = std::span(before).subspan(row * c.vocab, c.vocab);
    double sum = 0;
    for (const double x : of) sum += std::exp(x);
    const double log_sum = std::log(sum);
    const auto target = static_cast<size_t>(targets[row]);
    EXPECT_NEAR(losses[row], log_sum - of[target], 2e-5) << what << ", row " << row;
    for (size_t i = 0; i < c.vocab; ++i) {
      const double p = std::exp(of[i] - log_sum);
      const double wanted = c.gradients ? c.scale * (p * (1 + 2 * c.z_loss * log_sum) - (i == target ? 1 : 0)) : of[i];
      ASSERT_NEAR(scores[row * c.vocab + i], wanted, SlackOf(c.type) * std::fabs(wanted) + (c.gradients ? 1e-6 : 0))
          << what << ", row " << row << ", score " << i;
    }
  }
}

TEST(KernelsOnHost, ScoresAreJudged) {
  for (const int32_t type : kTypes) {
    for (const size_t vocab : {1, 7, 8, 64, 1003, 2048, 4104}) {
      ExpectJudged({.type = type, .vocab = vocab, .z_loss = vocab % 3 == 0 ? 1e-3 : 0});
    }
    ExpectJudged({.type = type, .vocab = 264, .shift = 1});
    ExpectJudged({.type = type, .vocab = 264, .gradients = false});
    ExpectJudged({.type = type, .rows = 1, .vocab = 8, .scale = 0});
  }
}

// In whichever lane it stands; what is impossible takes no part.
TEST(KernelsOnHost, ScoresThatAreNotFiniteMakeNoLoss) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  for (const float bad : {kInfinite, std::numeric_limits<float>::quiet_NaN(), -kInfinite}) {
    for (const size_t at : {size_t{0}, size_t{5}, size_t{2000}}) {
      std::vector<float> scores(2048, 1.0f);
      scores[at] = bad;
      const int64_t target = 3;
      float loss = 0;
      ASSERT_EQ(gpu::JudgeOnDevice({ATOLL_GPU_TYPE_FP32, 0, scores.data(), &target, &loss, 1, 2048, 1, 0}, nullptr),
                cudaSuccess);
      if (bad < 0) {
        EXPECT_NEAR(loss, std::log(2047.0), 1e-5) << at;
      } else {
        EXPECT_TRUE(std::isnan(loss)) << bad << " at " << at << " makes " << loss;
      }
    }
  }
  std::vector<float> scores(64, -kInfinite);
  scores[40] = 2;
  const int64_t target = 40;
  float loss = 1;
  ASSERT_EQ(gpu::JudgeOnDevice({ATOLL_GPU_TYPE_FP32, 0, scores.data(), &target, &loss, 1, 64, 1, 0}, nullptr),
            cudaSuccess);
  EXPECT_EQ(loss, 0.0f);
}

void ExpectGated(int32_t type, size_t rows, size_t width, size_t shift) {
  const std::string what = absl::StrCat("type ", type, ", ", rows, " x ", width, ", shift ", shift);
  Held in(type, shift, Spread(width, rows * 2 * width, 6)), above(type, shift, Spread(width + 1, rows * width, 2));
  Held out(type, shift, std::vector<double>(rows * width)), back(type, shift, std::vector<double>(rows * 2 * width));
  const auto columns = static_cast<uint32_t>(width);
  ASSERT_EQ(gpu::GateOnDevice({type, columns, rows, in.data(), nullptr, out.data()}, nullptr), cudaSuccess);
  ASSERT_EQ(gpu::GateBackOnDevice({type, columns, rows, in.data(), above.data(), back.data()}, nullptr), cudaSuccess);
  out.ExpectUntouchedBehind(), back.ExpectUntouchedBehind();
  const auto expect_near = [&](double got, double wanted, const char* of, size_t i) {
    ASSERT_NEAR(got, wanted, SlackOf(type) * std::fabs(wanted) + 1e-6) << of << ", " << what << ", element " << i;
  };
  for (size_t i = 0; i < rows * width; ++i) {
    const size_t first = i / width * 2 * width + i % width, second = first + width;
    const double g = in[first], u = in[second], s = 1 / (1 + std::exp(-g));
    expect_near(out[i], g * s * u, "SwiGLU", i);
    expect_near(back[first], above[i] * u * s * (1 + g * (1 - s)), "of the gate", i);
    expect_near(back[second], above[i] * g * s, "of the up", i);
  }
}

TEST(KernelsOnHost, GatesAndTheirGradients) {
  for (const int32_t type : kTypes) {
    for (const size_t width : {1, 5, 8, 24, 264}) ExpectGated(type, 3, width, 0);
    ExpectGated(type, 2, 16, 1);
    ExpectGated(type, 0, 16, 0);
  }
}

// Heads that lie among others, turned into a place of their own, and back into theirs.
void ExpectTurned(int32_t type, uint32_t head_dim, bool own_angles, size_t shift) {
  constexpr uint32_t kSequences = 2, kLength = 3, kHeads = 2, kAll = 5;
  const std::string what = absl::StrCat("type ", type, ", heads of ", head_dim, ", shift ", shift);
  const size_t half = head_dim / 2, rows = own_angles ? kSequences * kLength : kLength;
  Held in(type, shift, Spread(head_dim, kSequences * kLength * kAll * head_dim, 3));
  Held out(type, shift, std::vector<double>(kSequences * kLength * kHeads * head_dim));
  Held again(type, shift, std::vector<double>(kSequences * kLength * kAll * head_dim, 5));
  std::vector<double> cosines = Spread(8, rows * half, 3), sines = cosines;
  for (double& x : cosines) x = std::cos(x);
  for (double& x : sines) x = std::sin(x);
  Held cosine(type, shift, cosines), sine(type, shift, sines);
  atoll_gpu_turning t = {type,          0,
                         kSequences,    kLength,
                         kHeads,        head_dim,
                         in.data(),     {kLength * kAll * head_dim, kAll * head_dim, head_dim},
                         out.data(),    {kLength * kHeads * head_dim, kHeads * head_dim, head_dim},
                         cosine.data(), sine.data(),
                         rows};
  ASSERT_EQ(gpu::TurnOnDevice(t, nullptr), cudaSuccess);
  out.ExpectUntouchedBehind();
  t.back = 1;
  t.in = out.data(), t.out = again.data();
  std::swap(t.in_strides, t.out_strides);
  ASSERT_EQ(gpu::TurnOnDevice(t, nullptr), cudaSuccess);
  again.ExpectUntouchedBehind();
  for (size_t row = 0; row < kSequences * kLength; ++row) {
    for (size_t head = 0; head < kAll; ++head) {
      const size_t from = (row * kAll + head) * head_dim, to = (row * kHeads + head) * head_dim;
      for (size_t i = 0; i < half; ++i) {
        if (head >= kHeads) {
          EXPECT_EQ(again[from + i], 5) << what << ": a head that is not its own is touched";
          continue;
        }
        const size_t angle = (own_angles ? row : row % kLength) * half + i;
        const double x = in[from + i], y = in[from + half + i], c = cosine[angle], s = sine[angle];
        ASSERT_NEAR(out[to + i], x * c - y * s, 6 * SlackOf(type)) << what << ", row " << row << ", element " << i;
        ASSERT_NEAR(out[to + half + i], y * c + x * s, 6 * SlackOf(type)) << what << ", row " << row;
        ASSERT_NEAR(again[from + i], x, 16 * SlackOf(type)) << what << ", row " << row << ", turned back";
        ASSERT_NEAR(again[from + half + i], y, 16 * SlackOf(type)) << what << ", row " << row << ", turned back";
      }
    }
  }
}

TEST(KernelsOnHost, HeadsAreTurnedAndTurnedBack) {
  for (const int32_t type : kTypes) {
    for (const uint32_t head_dim : {2u, 6u, 16u, 32u}) ExpectTurned(type, head_dim, head_dim == 6, 0);
    ExpectTurned(type, 32, true, 0);
    ExpectTurned(type, 32, false, 1);
  }
}

TEST(KernelsOnHost, NothingIsDoneToNothingAndAnUnknownCodecIsRefused) {
  const auto unknown = static_cast<atoll_gpu_codec>(7);
  EXPECT_EQ(gpu::EncodeOnDevice(unknown, nullptr, 0, nullptr, nullptr), cudaSuccess);
  EXPECT_EQ(gpu::FormOnDevice(ATOLL_GPU_CODEC_FP32, {}, 0, nullptr), cudaSuccess);
  float one = 1;
  EXPECT_EQ(gpu::EncodeOnDevice(unknown, &one, 1, &one, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(gpu::DecodeOnDevice(unknown, &one, &one, 1, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(gpu::JudgeOnDevice({}, nullptr), cudaSuccess);
  EXPECT_EQ(gpu::JudgeOnDevice({7, 0, &one, nullptr, &one, 1, 1, 1, 0}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(gpu::GateOnDevice({7, 1, 1, &one, nullptr, &one}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(gpu::TurnOnDevice({.type = 0, .sequences = 1, .length = 1, .heads = 1, .head_dim = 3}, nullptr),
            cudaErrorInvalidValue);
}

}  // namespace
}  // namespace atl
