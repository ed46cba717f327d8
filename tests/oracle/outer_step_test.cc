// SPDX-License-Identifier: Apache-2.0
// The oracle's independent implementation of docs/formats/outer-step.md against
// coordinator/aggregate: the same bits in every round.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "common/base/random.h"
#include "common/codec/codec.h"
#include "coordinator/aggregate/aggregator.h"
#include "tests/oracle/oracle.h"

namespace atl::oracle {
namespace {

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
  }

  void One(CodecKind upload) {
    std::vector<std::vector<std::byte>> encoded(outer_.merge.rule == MergeRule::kMean ? 3 : 7);
    std::vector<RoundInput> inputs;
    for (size_t i = 0; i < encoded.size(); ++i) {
      std::vector<float> values(kElements);
      for (float& x : values) x = 0.02f * static_cast<float>(random_.Uniform() - 0.5);
      encoded[i].resize(EncodedSize(upload, kElements));
      Encode(upload, values, encoded[i]);
      const uint64_t tokens = random_() % 5000, steps = random_() % 12;
      const double clip = random_() % 3 == 0 ? 0.37 : 1;
      inputs.push_back({.worker = WorkerId{std::string(1, static_cast<char>('a' + i))},
                        .codec = upload,
                        .encoded = encoded[i],
                        .tokens = tokens,
                        .steps = steps,
                        .clip_factor = clip});
    }
    const auto result = aggregator_.CloseRound({0}, Version{state_.version}, inputs, outer_, 1);
    ASSERT_TRUE(result.ok() && result->committed) << result.status();
    const std::vector<double> weights = WeightsOf(outer_, inputs);
    for (size_t i = 0; i < weights.size(); ++i) {
      ASSERT_EQ(weights[i], result->contributions[i].weight);
      ASSERT_EQ(NormOf(upload, encoded[i], kElements), result->contributions[i].norm);
    }
    const std::vector<std::byte> update = TakeOuterStep(outer_, inputs, weights, state_);
    ASSERT_TRUE(std::ranges::equal(update, result->update));
    ASSERT_EQ(ContentHash(state_.public_copy, state_.version, {11, 12}), result->hash);
    const FragmentStateView view = aggregator_.State({0});
    ASSERT_EQ(std::memcmp(view.momentum.data(), state_.momentum.data(), kElements * sizeof(float)), 0);
    ASSERT_EQ(std::memcmp(view.residual.data(), state_.residual.data(), kElements * sizeof(float)), 0);
  }

 private:
  static constexpr uint64_t kElements = 2 * kPieceElements + 333;
  const OuterParameters outer_;
  Rng random_;
  Aggregator aggregator_;
  FragmentState state_;
};

TEST(OracleOuterStep, IsTheAggregatesToTheBit) {
  uint64_t seed = 1;
  for (const OuterKind kind : {OuterKind::kNesterov, OuterKind::kMomentum, OuterKind::kSgd}) {
    for (const WeightRule weights : {WeightRule::kUniform, WeightRule::kTokens, WeightRule::kTokensSquaredOverSteps}) {
      for (const ErrorMemory memory : {ErrorMemory::kOff, ErrorMemory::kFeedback, ErrorMemory::kLoco}) {
        for (const CodecKind codec : kCodecKinds) {
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
            ASSERT_NO_FATAL_FAILURE(rounds.One(kCodecKinds[(seed + static_cast<uint64_t>(n)) % std::size(kCodecKinds)]))
                << seed;
          }
        }
      }
    }
  }
}

TEST(OracleOuterStep, EveryMergeIsTheAggregatesToTheBit) {
  uint64_t seed = 1;
  for (const MergeRule rule : {MergeRule::kTrimmedMean, MergeRule::kMedian, MergeRule::kCenteredClip}) {
    for (const double amount : {0.0, 0.1, 0.3}) {
      for (const CodecKind codec : kCodecKinds) {
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

}  // namespace
}  // namespace atl::oracle
