// SPDX-License-Identifier: Apache-2.0
// Arrays that a snapshot omits: they hold zeros, and results computed from them must have the same
// bits.
#include <algorithm>
#include <bit>
#include <tuple>
#include <vector>

#include "common/base/random.h"
#include "common/codec/codec.h"
#include "coordinator/aggregate/aggregator.h"
#include "gtest/gtest.h"

namespace atl {
namespace {

constexpr FragmentIndex kOnly{0};
constexpr size_t kElements = 5000;

Aggregator Restored(const std::vector<float>& start, const std::vector<float>& momentum = {},
                    const std::vector<float>& residual = {}) {
  ModelLayout layout;
  layout.fragments.push_back({0, start.size(), {}});
  layout.elements = start.size();
  layout.digest = {1, 2};
  Aggregator aggregator(layout);
  EXPECT_TRUE(aggregator.Restore(kOnly, {Version{0}, start, momentum, residual}).ok());
  return aggregator;
}

// Half of the zeros are negative zeros.
std::vector<float> Delta(uint64_t seed) {
  std::vector<float> delta(kElements, -0.0f);
  for (size_t i = kElements / 2; i < kElements; ++i) delta[i] = NormalAt(seed, i) * 0.01f;
  return delta;
}

bool AreZeroBits(std::span<const float> x) {
  return std::all_of(x.begin(), x.end(), [](float value) { return std::bit_cast<uint32_t>(value) == 0; });
}

using Case = std::tuple<CodecKind, ErrorMemory, OuterKind>;
class ZerosOfRounds : public testing::TestWithParam<Case> {};

TEST_P(ZerosOfRounds, AreLeftOutAndNothingElse) {
  const auto [codec, memory, kind] = GetParam();
  OuterParameters parameters{.kind = kind, .learning_rate = 0.7, .momentum = 0.9, .inner_steps = 10};
  parameters.download_codec = codec;
  parameters.download_error_memory = memory;
  parameters.loco.reset_syncs = 2;
  Aggregator aggregator = Restored(Delta(1));
  EXPECT_TRUE(aggregator.StateWithoutZeros(kOnly).momentum.empty());
  EXPECT_TRUE(aggregator.StateWithoutZeros(kOnly).residual.empty());
  for (uint64_t version = 0; version < 4; ++version) {
    const std::vector<float> delta = Delta(10 + version);
    std::vector<std::byte> encoded(EncodedSize(CodecKind::kFp32, kElements));
    Encode(CodecKind::kFp32, delta, encoded);
    const std::vector<RoundInput> inputs = {{WorkerId{"w"}, CodecKind::kFp32, encoded, 10, 10}};
    ASSERT_TRUE(aggregator.CloseRound(kOnly, Version{version}, inputs, parameters).ok());
    const FragmentStateView all = aggregator.State(kOnly), kept = aggregator.StateWithoutZeros(kOnly);
    const bool forgotten = memory == ErrorMemory::kOff || (memory == ErrorMemory::kLoco && version % 2 == 1);
    const bool nothing_lost = memory == ErrorMemory::kFeedback && codec == CodecKind::kFp32;
    EXPECT_EQ(kept.momentum.empty(), kind == OuterKind::kSgd) << version;
    EXPECT_EQ(kept.residual.empty(), forgotten || nothing_lost) << version;
    EXPECT_TRUE(!kept.momentum.empty() || AreZeroBits(all.momentum)) << version;
    EXPECT_TRUE(!kept.residual.empty() || AreZeroBits(all.residual)) << version;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ZerosOfRounds,
                         testing::Combine(testing::Values(CodecKind::kFp32, CodecKind::kBf16, CodecKind::kMxfp4),
                                          testing::Values(ErrorMemory::kOff, ErrorMemory::kFeedback,
                                                          ErrorMemory::kLoco),
                                          testing::Values(OuterKind::kNesterov, OuterKind::kSgd)));

TEST(ZerosOfARestore, AreLeftOutWhereNoneIsBelowZero) {
  const std::vector<float> start = {1, 2, 3}, zeros = {0, 0, 0}, below = {0, -0.0f, 0};
  const Aggregator first = Restored(start, below, zeros), second = Restored(start, zeros, start);
  EXPECT_EQ(first.StateWithoutZeros(kOnly).momentum.size(), 3u);
  EXPECT_TRUE(first.StateWithoutZeros(kOnly).residual.empty());
  EXPECT_TRUE(second.StateWithoutZeros(kOnly).momentum.empty());
  EXPECT_EQ(second.StateWithoutZeros(kOnly).residual.size(), 3u);
}

}  // namespace
}  // namespace atl
