// SPDX-License-Identifier: Apache-2.0
// The single forming pass on the host: the bytes, losses and sums of worker/replica, to the bit.
#include "worker/gpu/form_math.h"

#include <bit>
#include <limits>

#include "common/codec/fused.h"
#include "common/vecmath/vecmath.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/gpu/codec_cases.h"
#include "tests/unit/worker/gpu/form_cases.h"

namespace atl {
namespace {

using codec_cases::BitsOfAll;
using codec_cases::FirstDifference;
using codec_cases::kAllCodecs;
using form_cases::Case;

// Compares the pass with PseudoGradient, Encode and DecodeLost block by block, as in
// fragment_replica.cc.
void ExpectSame(CodecKind kind, const Case& c, bool with_residual) {
  const std::string what = std::string(CodecName(kind)) + ", " + std::to_string(c.outer.size()) + " elements" +
                           (with_residual ? ", with a residual" : "");
  const form_cases::Formed got = form_cases::ByThePass(kind, c, with_residual);
  const form_cases::Formed wanted = form_cases::ByTheHost(kind, c, with_residual);
  EXPECT_TRUE(got.encoded == wanted.encoded) << what << ", byte " << FirstDifference(got.encoded, wanted.encoded);
  EXPECT_TRUE(BitsOfAll(got.lost) == BitsOfAll(wanted.lost))
      << what << ", element " << FirstDifference(BitsOfAll(got.lost), BitsOfAll(wanted.lost));
  ASSERT_EQ(got.sums.size(), wanted.sums.size());
  for (size_t b = 0; b < got.sums.size(); ++b) {
    EXPECT_EQ(got.sums[b].largest, wanted.sums[b].largest) << what << ", block " << b;
    EXPECT_EQ(std::bit_cast<uint64_t>(got.sums[b].sent_squares), std::bit_cast<uint64_t>(wanted.sums[b].sent_squares))
        << what << ", block " << b;
    EXPECT_EQ(std::bit_cast<uint64_t>(got.sums[b].lost_squares), std::bit_cast<uint64_t>(wanted.sums[b].lost_squares))
        << what << ", block " << b;
  }
}

TEST(FormMath, EverySizeIsTheHosts) {
  for (const CodecKind kind : kAllCodecs) {
    for (size_t size = 1; size <= 300; ++size) {
      ExpectSame(kind, form_cases::Random(size, size), size % 2 == 0);
    }
    for (const size_t size : std::initializer_list<size_t>{4095, 4096, 4097, 8192 + 33, 3 * 4096 + 129}) {
      for (const bool with_residual : {false, true}) {
        ExpectSame(kind, form_cases::Random(size, size), with_residual);
      }
    }
  }
}

TEST(FormMath, AllExponentsAndTiesAreTheHosts) {
  for (const CodecKind kind : kAllCodecs) {
    ExpectSame(kind, form_cases::OfSent(form_cases::FiniteOf(codec_cases::Ties())), false);
    ExpectSame(kind, form_cases::OfSent(form_cases::FiniteOf(codec_cases::Sweep())), false);
    ExpectSame(kind, form_cases::OfSent(form_cases::FiniteOf(codec_cases::Sweep())), true);
  }
}

TEST(FormMath, ZeroBlocksAreTheHosts) {
  for (const CodecKind kind : kAllCodecs) {
    Case zeros = form_cases::OfSent(std::vector<float>(4096 + 257, 0.0f));
    ExpectSame(kind, zeros, true);
    zeros.outer[5000 - 900] = -0.0f;
    zeros.outer[4200] = std::numeric_limits<float>::denorm_min();
    ExpectSame(kind, zeros, false);
  }
}

// At any position, for a non-finite operand and for an overflowing difference.
TEST(FormMath, NonFiniteValuesAreReported) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  constexpr float kMost = std::numeric_limits<float>::max();
  for (const CodecKind kind : kAllCodecs) {
    for (const size_t at : std::initializer_list<size_t>{0, 4095, 4096, 4099}) {
      for (const float local : {kInfinite, -kInfinite, std::numeric_limits<float>::quiet_NaN(), -kMost}) {
        Case c = form_cases::Random(3, 4100);
        c.outer[at] = kMost;
        c.local[at] = local;
        const auto formed = form_cases::ByThePass(kind, c, true);
        for (size_t b = 0; b < 2; ++b) {
          EXPECT_EQ(formed.sums[b].largest >= codec_math::kInfinity, b == at / 4096) << CodecName(kind) << ", " << at;
        }
      }
    }
  }
}

}  // namespace
}  // namespace atl
