// SPDX-License-Identifier: Apache-2.0
// A check of bytes as they arrive has the same result as a check of all bytes at once.
#include "coordinator/aggregate/contribution_screener.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/codec/codec.h"
#include "coordinator/aggregate/round_pass.h"

namespace atl {
namespace {

std::vector<std::byte> Encoded(CodecKind codec, size_t elements, bool finite = true) {
  std::vector<float> values(elements);
  for (size_t i = 0; i < elements; ++i) values[i] = NormalAt(7, i) * 1e-3f;
  if (!finite) values[elements / 2] = std::numeric_limits<float>::infinity();
  std::vector<std::byte> out(EncodedSize(codec, elements));
  Encode(codec, values, out);
  return out;
}

// The bytes arrive two pieces at a time, of random lengths.
std::optional<ContributionScreen> Arrive(CodecKind codec, size_t elements, Bytes bytes, uint64_t seed) {
  ContributionScreener screener(codec, elements);
  Rng rng(seed);
  size_t at = 0;
  const auto next = [&] {
    const size_t size = std::min<size_t>(bytes.size() - at, rng.Below(20'000));
    at += size;
    return bytes.subspan(at - size, size);
  };
  while (at < bytes.size()) {
    const size_t offset = at;
    const Bytes first = next(), second = next();
    screener.Update(offset, std::array{first, second});
  }
  return screener.Finish();
}

ContributionScreen Whole(CodecKind codec, Bytes encoded, size_t elements) {
  RoundInput input;
  input.codec = codec;
  input.encoded = encoded;
  return aggregate::ScreenAll(std::span(&input, 1), elements, 1).front();
}

TEST(ContributionScreener, PiecesGiveTheVerdictOfTheWhole) {
  for (const CodecKind codec : kCodecKinds) {
    for (const size_t elements : {size_t{1}, size_t{100}, kCodecBlock, 3 * kCodecBlock + 77, 10 * kCodecBlock}) {
      SCOPED_TRACE(std::string(CodecName(codec)) + " " + std::to_string(elements));
      const std::vector<std::byte> bytes = Encoded(codec, elements);
      const ContributionScreen whole = Whole(codec, bytes, elements);
      for (uint64_t seed = 1; seed <= 5; ++seed) {
        const auto screen = Arrive(codec, elements, bytes, seed);
        ASSERT_TRUE(screen.has_value());
        EXPECT_TRUE(screen->finite);
        EXPECT_EQ(screen->norm, whole.norm);
        EXPECT_EQ(screen->max_abs, whole.max_abs);
      }
    }
  }
}

TEST(ContributionScreener, FindsNonFiniteValues) {
  for (const CodecKind codec : kCodecKinds) {
    if (codec == CodecKind::kFp16 || codec == CodecKind::kBf16 || codec == CodecKind::kFp32) {
      const std::vector<std::byte> bytes = Encoded(codec, 3 * kCodecBlock, /*finite=*/false);
      const auto screen = Arrive(codec, 3 * kCodecBlock, bytes, 1);
      ASSERT_TRUE(screen.has_value());
      EXPECT_FALSE(screen->finite);
      EXPECT_EQ(screen->norm, 0);
    }
  }
}

TEST(ContributionScreener, SaysNothingOfATransferThatWasResumedOrIsNotWhole) {
  const size_t elements = 2 * kCodecBlock;
  const std::vector<std::byte> bytes = Encoded(CodecKind::kFp32, elements);
  const Bytes first = Bytes(bytes).first(1000), rest = Bytes(bytes).subspan(1000);
  ContributionScreener resumed(CodecKind::kFp32, elements);
  resumed.Update(1000, std::span(&rest, 1));
  EXPECT_FALSE(resumed.Finish().has_value());
  ContributionScreener twice(CodecKind::kFp32, elements);
  twice.Update(0, std::span(&first, 1));
  EXPECT_FALSE(twice.Finish().has_value());
  twice.Update(0, std::span(&first, 1));
  twice.Update(1000, std::span(&rest, 1));
  EXPECT_FALSE(twice.Finish().has_value());
  ContributionScreener longer(CodecKind::kFp32, elements);
  longer.Update(0, std::array{Bytes(bytes), first});
  EXPECT_FALSE(longer.Finish().has_value());
}

// Enough blocks for several chunks of a thread.
struct ManyBlocks {
  static constexpr size_t kElements = 50 * kCodecBlock + 13;
  ManyBlocks() {
    layout.fragments.push_back({0, kElements, {}});
    layout.elements = kElements;
    layout.digest = {1, 2};
    for (uint64_t i = 0; i < 3; ++i) {
      RoundInput input;
      input.worker = WorkerId{"w" + std::to_string(i)};
      input.codec = CodecKind::kMxfp4;
      input.encoded = bytes;
      input.tokens = 10 + i;
      input.steps = 10;
      inputs.push_back(input);
    }
  }
  RoundResult Close(CodecKind download, unsigned threads) const {
    Aggregator aggregator(layout);
    std::vector<float> parameters(kElements);
    for (size_t i = 0; i < kElements; ++i) parameters[i] = NormalAt(1, i);
    EXPECT_TRUE(aggregator.Restore(FragmentIndex{0}, {Version{0}, parameters, {}, {}}).ok());
    auto result = aggregator.CloseRound(FragmentIndex{0}, Version{0}, inputs,
                                        {.learning_rate = 0.7, .momentum = 0.9, .download_codec = download}, threads);
    EXPECT_TRUE(result.ok());
    return *std::move(result);
  }

  const std::vector<std::byte> bytes = Encoded(CodecKind::kMxfp4, kElements);
  ModelLayout layout;
  std::vector<RoundInput> inputs;
};

TEST(CloseRound, IsEqualForAnyThreadsAndKnownScreens) {
  ManyBlocks round;
  for (const CodecKind download : {CodecKind::kFp32, CodecKind::kMxfp4}) {
    for (RoundInput& input : round.inputs) input.screen.reset();
    const RoundResult wanted = round.Close(download, 1);
    EXPECT_EQ(wanted.update_digest, DigestOf(wanted.update));
    for (RoundInput& input : round.inputs) input.screen = Arrive(input.codec, round.kElements, input.encoded, 1);
    for (const unsigned threads : {1u, 2u, 3u, 64u}) {
      const RoundResult result = round.Close(download, threads);
      EXPECT_EQ(result.update, wanted.update) << threads;
      EXPECT_EQ(result.update_digest, wanted.update_digest) << threads;
      EXPECT_EQ(result.hash, wanted.hash) << threads;
      EXPECT_EQ(result.merged_norm, wanted.merged_norm) << threads;
      for (size_t i = 0; i < round.inputs.size(); ++i) {
        EXPECT_EQ(result.contributions[i].norm, wanted.contributions[i].norm);
        EXPECT_EQ(result.contributions[i].cosine_to_merged, wanted.contributions[i].cosine_to_merged);
      }
    }
  }
}

TEST(CloseRound, BelievesAScreenThatIsKnown) {
  ManyBlocks round;
  round.inputs[1].screen = ContributionScreen{.finite = false};
  const RoundResult result = round.Close(CodecKind::kFp32, 1);
  EXPECT_FALSE(result.committed);
  EXPECT_EQ(result.non_finite, std::vector<WorkerId>{WorkerId{"w1"}});
}

TEST(ContributionScreen, MeasuresWithoutState) {
  std::vector<float> delta = {3, 0, -4};
  std::vector<std::byte> bytes(12);
  Encode(CodecKind::kFp32, delta, bytes);
  const ContributionScreen screen = Whole(CodecKind::kFp32, bytes, 3);
  EXPECT_TRUE(screen.finite);
  EXPECT_EQ(screen.norm, 5);
  EXPECT_EQ(screen.max_abs, 4);
  delta[1] = std::numeric_limits<float>::quiet_NaN();
  Encode(CodecKind::kFp32, delta, bytes);
  EXPECT_FALSE(Whole(CodecKind::kFp32, bytes, 3).finite);
}

}  // namespace
}  // namespace atl
