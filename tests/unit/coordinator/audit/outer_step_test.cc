// SPDX-License-Identifier: Apache-2.0
// The audit's independent implementation of docs/formats/outer-step.md against
// coordinator/aggregate: the same bits in every round.
#include "coordinator/audit/outer_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "common/base/random.h"
#include "common/codec/codec.h"
#include "coordinator/aggregate/aggregator.h"
#include "coordinator/audit/codecs.h"

namespace atl::audit {
namespace {

constexpr CodecKind kCodecs[] = {CodecKind::kFp32, CodecKind::kFp16,  CodecKind::kBf16,
                                 CodecKind::kInt8, CodecKind::kMxfp4, CodecKind::kE3m0};

ModelLayout OneFragment(uint64_t elements) {
  ModelLayout layout;
  layout.elements = elements;
  layout.fragments.resize(1);
  layout.fragments[0].elements = elements;
  layout.digest = {11, 12};
  return layout;
}

// One round of both implementations: some workers, some codec, random values.
class Rounds {
 public:
  Rounds(const OuterParameters& outer, uint64_t seed)
      : outer_(outer), random_(seed), aggregator_(OneFragment(kElements)) {
    state_.public_copy.resize(kElements);
    state_.momentum.resize(kElements);
    state_.residual.resize(kElements);
    rule_.kind = static_cast<v1::OuterOptimizerKind>(static_cast<int>(outer.kind) + 1);
    rule_.weights = static_cast<v1::WeightRule>(static_cast<int>(outer.weights) + 1);
    rule_.merge = static_cast<v1::MergeRule>(static_cast<int>(outer.merge.rule) + 1);
    rule_.trim_share = outer.merge.trim_share;
    rule_.clip_radius = outer.merge.clip_radius;
    rule_.codec = static_cast<v1::CodecKind>(static_cast<int>(outer.download_codec) + 1);
    rule_.memory = static_cast<v1::ErrorMemory>(static_cast<int>(outer.download_error_memory) + 1);
    rule_.loco_beta = outer.loco.beta;
    rule_.loco_reset = outer.loco.reset_syncs;
    rule_.inner_steps = outer.inner_steps;
    rule_.learning_rate = outer.learning_rate;
    rule_.momentum = outer.momentum;
  }

  void One(CodecKind upload) {
    std::vector<std::vector<std::byte>> encoded(outer_.merge.rule == MergeRule::kMean ? 3 : 7);
    std::vector<RoundInput> theirs;
    std::vector<StepInput> ours;
    for (size_t i = 0; i < encoded.size(); ++i) {
      std::vector<float> values(kElements);
      for (float& x : values) x = 0.02f * static_cast<float>(random_.Uniform() - 0.5);
      encoded[i].resize(EncodedSize(upload, kElements));
      Encode(upload, values, encoded[i]);
      const uint64_t tokens = random_() % 5000, steps = random_() % 12;
      const double clip = random_() % 3 == 0 ? 0.37 : 1;
      theirs.push_back({.worker = WorkerId{std::string(1, static_cast<char>('a' + i))},
                        .codec = upload,
                        .encoded = encoded[i],
                        .tokens = tokens,
                        .steps = steps,
                        .clip_factor = clip});
      ours.push_back({.codec = static_cast<v1::CodecKind>(static_cast<int>(upload) + 1),
                      .encoded = encoded[i],
                      .tokens = tokens,
                      .steps = steps,
                      .clip_factor = clip});
    }
    const auto result = aggregator_.CloseRound({0}, Version{state_.version}, theirs, outer_, 1);
    ASSERT_TRUE(result.ok() && result->committed) << result.status();
    const std::vector<double> weights = WeightsOf(rule_, ours);
    for (size_t i = 0; i < weights.size(); ++i) ASSERT_EQ(weights[i], result->contributions[i].weight);
    const std::vector<std::byte> update = TakeOuterStep(rule_, ours, weights, state_);
    ASSERT_TRUE(std::ranges::equal(update, result->update));
    ASSERT_EQ(HashOfFragment(state_.public_copy, state_.version, {11, 12}), result->hash);
    const FragmentStateView view = aggregator_.State({0});
    ASSERT_EQ(std::memcmp(view.momentum.data(), state_.momentum.data(), kElements * sizeof(float)), 0);
    ASSERT_EQ(std::memcmp(view.residual.data(), state_.residual.data(), kElements * sizeof(float)), 0);
  }

 private:
  static constexpr uint64_t kElements = 2 * kPieceElements + 333;
  const OuterParameters outer_;
  Rng random_;
  Aggregator aggregator_;
  OuterRule rule_;
  FragmentState state_;
};

TEST(SecondReadingOfTheOuterStep, IsTheAggregatesToTheBit) {
  uint64_t seed = 1;
  for (const OuterKind kind : {OuterKind::kNesterov, OuterKind::kMomentum, OuterKind::kSgd}) {
    for (const WeightRule weights : {WeightRule::kUniform, WeightRule::kTokens, WeightRule::kTokensSquaredOverSteps}) {
      for (const ErrorMemory memory : {ErrorMemory::kOff, ErrorMemory::kFeedback, ErrorMemory::kLoco}) {
        for (const CodecKind codec : kCodecs) {
          OuterParameters outer;
          outer.kind = kind;
          outer.learning_rate = 0.7;
          outer.momentum = 0.9;
          outer.weights = weights;
          outer.inner_steps = 10;
          outer.download_codec = codec;
          outer.download_error_memory = memory;
          outer.loco = {.beta = seed % 3 == 0 ? 0.0 : 0.8, .reset_syncs = 3};
          Rounds rounds(outer, ++seed);
          for (int n = 0; n < 4; ++n) {
            ASSERT_NO_FATAL_FAILURE(rounds.One(kCodecs[(seed + static_cast<uint64_t>(n)) % std::size(kCodecs)]))
                << seed;
          }
        }
      }
    }
  }
}

TEST(SecondReadingOfTheOuterStep, EveryMergeIsTheAggregatesToTheBit) {
  uint64_t seed = 1;
  for (const MergeRule rule : {MergeRule::kTrimmedMean, MergeRule::kMedian, MergeRule::kCenteredClip}) {
    for (const double amount : {0.0, 0.1, 0.3}) {
      for (const CodecKind codec : kCodecs) {
        OuterParameters outer;
        outer.learning_rate = 0.7;
        outer.momentum = 0.9;
        outer.merge = {.rule = rule, .trim_share = amount, .clip_radius = 3 * amount + 0.1};
        outer.inner_steps = 10;
        outer.download_codec = codec;
        Rounds rounds(outer, ++seed);
        for (int n = 0; n < 3; ++n) ASSERT_NO_FATAL_FAILURE(rounds.One(codec)) << seed;
      }
    }
  }
}

TEST(SecondReadingOfTheOuterStep, WhatASpecLeavesOutHasTheDefaults) {
  const OuterRule rule = RuleOf(v1::JobSpec());
  EXPECT_EQ(rule.kind, v1::OUTER_OPTIMIZER_KIND_NESTEROV);
  EXPECT_EQ(rule.weights, v1::WEIGHT_RULE_TOKENS);
  EXPECT_EQ(rule.merge, v1::MERGE_RULE_MEAN);
  EXPECT_EQ(rule.trim_share, MergeSpec().trim_share);
  EXPECT_EQ(rule.clip_radius, MergeSpec().clip_radius);
  EXPECT_EQ(rule.codec, v1::CODEC_KIND_FP32);
  EXPECT_EQ(rule.memory, v1::ERROR_MEMORY_FEEDBACK);
  EXPECT_EQ(rule.inner_steps, 100u);
  EXPECT_EQ(rule.loco_beta, 0.8);
  EXPECT_EQ(rule.loco_reset, 64u);
}

}  // namespace
}  // namespace atl::audit
