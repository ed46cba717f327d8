// SPDX-License-Identifier: Apache-2.0
// I4: a round is a function of the set of its contributions. For every order of arrival, number of
// threads and instruction set, the result is equal to the bit.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/codec/codec.h"
#include "coordinator/aggregate/aggregator.h"
#include "gtest/gtest.h"
#include "hwy/targets.h"

namespace atl {
namespace {

constexpr size_t kElements = 5 * 4096 + 77;  // blocks for every thread, and a partial one
constexpr int kOrders = 100;                 // of each rule
constexpr unsigned kThreads = 4;
constexpr CodecKind kCodecs[] = {CodecKind::kFp32,  CodecKind::kFp16, CodecKind::kBf16, CodecKind::kInt8,
                                 CodecKind::kMxfp4, CodecKind::kE3m0, CodecKind::kInt8, CodecKind::kFp32};

struct Round {
  std::vector<std::vector<std::byte>> encoded;
  std::vector<RoundInput> inputs;
};

// Eight workers with magnitudes that differ by powers of ten: another order of addition changes the sum.
// the sum.
Round RoundOf(uint64_t number) {
  Round round;
  float scale = 1e-4f;
  for (size_t w = 0; w < std::size(kCodecs); ++w, scale *= 3) {
    std::vector<float> x(kElements);
    for (size_t k = 0; k < kElements; ++k) x[k] = scale * NormalAt(100 * number + w, k);
    round.encoded.emplace_back(EncodedSize(kCodecs[w], kElements));
    Encode(kCodecs[w], x, round.encoded.back());
  }
  for (size_t w = 0; w < std::size(kCodecs); ++w)
    round.inputs.push_back(
        {WorkerId{"w" + std::to_string(w)}, kCodecs[w], round.encoded[w], 1000 + 37 * w * number, 10});
  return round;
}

// All results of a round, in bits.
struct Left {
  std::vector<std::byte> bits;
  friend bool operator==(const Left&, const Left&) = default;
};

Left LeftBy(const std::vector<Round>& rounds, MergeRule rule, unsigned threads) {
  ModelLayout layout;
  layout.elements = kElements;
  layout.fragments.push_back({0, kElements, {}});
  layout.digest = {1, 2};
  Aggregator aggregator(layout);
  OuterParameters outer = {.learning_rate = 0.7, .momentum = 0.9, .merge = {.rule = rule}, .inner_steps = 10};
  outer.download_codec = CodecKind::kInt8;
  Left left;
  const auto keep = [&left](Bytes bytes) { left.bits.insert(left.bits.end(), bytes.begin(), bytes.end()); };
  for (uint64_t version = 0; version < rounds.size(); ++version) {
    const auto result = aggregator.CloseRound({0}, {version}, rounds[version].inputs, outer, threads);
    EXPECT_TRUE(result.ok() && result->committed) << result.status();
    if (!result.ok()) return left;
    keep(result->update);
    keep(std::as_bytes(std::span(&result->hash, 1)));
  }
  const FragmentStateView state = aggregator.State({0});
  for (const auto& part : {state.public_copy, state.momentum, state.residual}) keep(std::as_bytes(part));
  return left;
}

class AnyOrder : public testing::TestWithParam<MergeRule> {
 protected:
  ~AnyOrder() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(AnyOrder, AnyOrderThreadsAndTargetGiveTheSameBits) {
  std::vector<Round> rounds;
  for (uint64_t number = 1; number <= 2; ++number) rounds.push_back(RoundOf(number));
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  const Left wanted = LeftBy(rounds, GetParam(), 1);
  Rng rng(StreamKey(4, std::to_string(static_cast<int>(GetParam()))));
  for (int i = 0; i < kOrders && !HasFailure(); ++i) {
    for (Round& round : rounds) {
      for (size_t left = round.inputs.size(); left > 1; --left)
        std::swap(round.inputs[left - 1], round.inputs[rng.Below(left)]);
    }
    const unsigned threads = 1 + static_cast<unsigned>(rng.Below(kThreads));
    const int64_t target = targets[static_cast<size_t>(i) % targets.size()];
    hwy::SetSupportedTargetsForTest(target);
    EXPECT_TRUE(LeftBy(rounds, GetParam(), threads) == wanted)
        << "order " << i << ", " << threads << " threads, " << hwy::TargetName(target);
  }
  EXPECT_GE(targets.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Rules, AnyOrder,
                         testing::Values(MergeRule::kMean, MergeRule::kTrimmedMean, MergeRule::kMedian,
                                         MergeRule::kCenteredClip));

}  // namespace
}  // namespace atl
