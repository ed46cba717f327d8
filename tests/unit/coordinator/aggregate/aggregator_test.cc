// SPDX-License-Identifier: Apache-2.0
// Closing rounds: the arithmetic against a plain loop, refusals that change nothing, replay and restore.
#include "coordinator/aggregate/aggregator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/codec/codec.h"
#include "gtest/gtest.h"

namespace atl {
namespace {

constexpr FragmentIndex kFirst{0};
constexpr FragmentIndex kSecond{1};

ModelLayout LayoutOf(std::vector<uint64_t> fragments) {
  ModelLayout layout;
  for (const uint64_t elements : fragments) {
    layout.fragments.push_back({layout.elements, elements, {}});
    layout.elements += elements;
  }
  layout.digest = {1, 2};
  return layout;
}

std::vector<float> Normals(uint64_t seed, size_t n, float scale = 1.0f) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = NormalAt(seed, i) * scale;
  return out;
}

// Owns the encoded bytes of a round's inputs.
class Round {
 public:
  void Add(const std::string& worker, CodecKind codec, std::span<const float> delta, uint64_t tokens,
           uint64_t steps = 10) {
    auto bytes = std::make_unique<std::vector<std::byte>>(EncodedSize(codec, delta.size()));
    Encode(codec, delta, *bytes);
    inputs_.push_back({WorkerId{worker}, codec, *bytes, tokens, steps});
    bytes_.push_back(std::move(bytes));
  }
  std::vector<RoundInput>& inputs() { return inputs_; }

 private:
  std::vector<std::unique_ptr<std::vector<std::byte>>> bytes_;
  std::vector<RoundInput> inputs_;
};

struct Copies {
  std::vector<float> public_copy, momentum, residual;
  Version version;
  friend bool operator==(const Copies&, const Copies&) = default;
};

Copies CopyOf(const Aggregator& aggregator, FragmentIndex fragment = kFirst) {
  const FragmentStateView view = aggregator.State(fragment);
  return {{view.public_copy.begin(), view.public_copy.end()},
          {view.momentum.begin(), view.momentum.end()},
          {view.residual.begin(), view.residual.end()},
          view.version};
}

Aggregator Restored(const ModelLayout& layout, std::span<const float> parameters, uint64_t version = 0) {
  Aggregator aggregator(layout);
  EXPECT_TRUE(aggregator.Restore(kFirst, {Version{version}, parameters, {}, {}}).ok());
  return aggregator;
}

const OuterParameters kNesterov = {
    .kind = OuterKind::kNesterov, .learning_rate = 0.7, .momentum = 0.9, .inner_steps = 10};

TEST(CloseRound, FollowsTheFormulaElementByElement) {
  const size_t n = 5000;
  const std::vector<float> start = Normals(1, n), a = Normals(2, n, 0.01f), b = Normals(3, n, 0.01f);
  Aggregator aggregator = Restored(LayoutOf({n}), start);
  OuterParameters parameters = kNesterov;
  parameters.download_codec = CodecKind::kBf16;
  std::vector<float> theta = start, buf(n), r(n);
  const float wa = 0.25f, wb = 0.75f, lr = 0.7f, mu = 0.9f;
  for (uint64_t version = 0; version < 3; ++version) {
    Round round;
    round.Add("a", CodecKind::kFp32, a, 100);
    round.Add("b", CodecKind::kFp32, b, 300);
    const auto result = aggregator.CloseRound(kFirst, Version{version}, round.inputs(), parameters);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_TRUE(result->committed);
    EXPECT_EQ(result->reached.value, version + 1);
    std::vector<float> decoded(n);
    Decode(CodecKind::kBf16, result->update, decoded);
    for (size_t i = 0; i < n; ++i) {
      float g = wa * a[i];
      g = g + wb * b[i];
      buf[i] = mu * buf[i] + g;
      const float u = -lr * (g + mu * buf[i]);
      const float h = u + r[i];
      float q;
      std::vector<std::byte> one(2);
      Encode(CodecKind::kBf16, std::span(&h, 1), one);
      Decode(CodecKind::kBf16, one, std::span(&q, 1));
      ASSERT_EQ(decoded[i], q);
      r[i] = h - q;
      theta[i] = theta[i] + q;
    }
    const Copies held = CopyOf(aggregator);
    ASSERT_EQ(held.public_copy, theta);
    ASSERT_EQ(held.momentum, buf);
    ASSERT_EQ(held.residual, r);
    EXPECT_EQ(result->hash, ContentHash(theta, version + 1, {1, 2}));
    EXPECT_EQ(result->update_digest, DigestOf(result->update));
  }
}

TEST(CloseRound, ReportsNormsWeightsAndDirections) {
  const std::vector<float> a = {3, 4}, b = {-3, -4};
  Aggregator aggregator = Restored(LayoutOf({2}), std::vector<float>{0, 0});
  Round round;
  round.Add("b", CodecKind::kFp32, b, 100);
  round.Add("a", CodecKind::kFp32, a, 300);
  const auto result = aggregator.CloseRound(kFirst, Version{0}, round.inputs(),
                                            {.kind = OuterKind::kSgd, .learning_rate = 2, .inner_steps = 10});
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->contributions.size(), 2u);
  EXPECT_EQ(result->contributions[0].worker.value, "a");
  EXPECT_EQ(result->contributions[0].weight, 0.75);
  EXPECT_EQ(result->contributions[0].norm, 5);
  EXPECT_DOUBLE_EQ(result->contributions[0].cosine_to_merged, 1);
  EXPECT_DOUBLE_EQ(result->contributions[1].cosine_to_merged, -1);
  EXPECT_EQ(result->merged_norm, 2.5);
  EXPECT_EQ(result->outer_step_norm, 5);
  EXPECT_EQ(CopyOf(aggregator).public_copy, (std::vector<float>{-3, -4}));
}

// The error of the download codec is the difference between the intended update and the change of the public copy.
TEST(CloseRound, ReportsTheErrorOfTheDownloadCodec) {
  const size_t n = 2 * kCodecBlock + 3;
  for (const CodecKind codec : {CodecKind::kFp32, CodecKind::kBf16, CodecKind::kMxfp4}) {
    Aggregator aggregator = Restored(LayoutOf({n}), std::vector<float>(n));
    OuterParameters parameters{.kind = OuterKind::kSgd, .learning_rate = 1, .inner_steps = 10};
    parameters.download_codec = codec;
    const std::vector<float> g = Normals(7, n);
    Round round;
    round.Add("a", CodecKind::kFp32, g, 10);
    const auto result = aggregator.CloseRound(kFirst, Version{0}, round.inputs(), parameters);
    ASSERT_TRUE(result.ok());
    const Copies held = CopyOf(aggregator);
    double sent = 0, lost = 0;
    for (size_t i = 0; i < n; ++i) {
      sent += std::pow(g[i], 2);
      lost += std::pow(-g[i] - held.public_copy[i], 2);
    }
    EXPECT_NEAR(result->download_error, std::sqrt(lost / sent), 1e-6) << CodecName(codec);
    EXPECT_EQ(result->download_error == 0, codec == CodecKind::kFp32);
  }
}

// Two elements by hand: momentum 0.5, learning rate 1. g0 = (1, 0): m = (1, 0), u = -(1.5, 0). g1 = (-1, 1): against
// m the cosine is -1 / sqrt 2; m = (-0.5, 1), u = -(-1.25, 1.5), against (-1.5, 0).
TEST(CloseRound, ReportsHowSuccessiveStepsLie) {
  Aggregator aggregator = Restored(LayoutOf({2}), std::vector<float>{0, 0});
  const OuterParameters parameters = {
      .kind = OuterKind::kNesterov, .learning_rate = 1, .momentum = 0.5, .inner_steps = 1};
  const auto close = [&](uint64_t version, const std::vector<float>& g) {
    Round round;
    round.Add("a", CodecKind::kFp32, g, 1, 1);
    return *aggregator.CloseRound(kFirst, Version{version}, round.inputs(), parameters);
  };
  const RoundResult first = close(0, {1, 0});
  EXPECT_FALSE(first.momentum_alignment.has_value());
  EXPECT_FALSE(first.step_alignment.has_value());
  EXPECT_DOUBLE_EQ(first.outer_step_norm / first.merged_norm, 1.5);
  const RoundResult second = close(1, {-1, 1});
  EXPECT_NEAR(second.momentum_alignment.value_or(9), -1 / std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(second.step_alignment.value_or(9), -1.25 / std::hypot(1.25, 1.5), 1e-12);
}

// A constant pseudo-gradient: every direction is the same, and the gain approaches 1 / (1 - momentum).
TEST(CloseRound, SteadyPseudoGradientsAreAligned) {
  const size_t n = 70 * kCodecBlock + 5;  // more blocks than are compared
  Aggregator aggregator = Restored(LayoutOf({n}), std::vector<float>(n));
  const OuterParameters parameters = {
      .kind = OuterKind::kNesterov, .learning_rate = 0.1, .momentum = 0.5, .inner_steps = 10};
  RoundResult last;
  for (uint64_t version = 0; version < 20; ++version) {
    Round round;
    round.Add("a", CodecKind::kFp32, Normals(7, n), 10);
    last = *aggregator.CloseRound(kFirst, Version{version}, round.inputs(), parameters, 3);
  }
  EXPECT_NEAR(last.momentum_alignment.value_or(9), 1, 1e-6);
  EXPECT_NEAR(last.step_alignment.value_or(9), 1, 1e-6);
  EXPECT_NEAR(last.outer_step_norm / last.merged_norm, 0.1 / (1 - 0.5), 1e-4);
}

TEST(CloseRound, WithoutMomentumOrAfterRestoreThereIsNothingToCompare) {
  Aggregator aggregator = Restored(LayoutOf({2}), std::vector<float>{0, 0});
  const OuterParameters sgd = {.kind = OuterKind::kSgd, .learning_rate = 1, .inner_steps = 1};
  const auto close = [&](uint64_t version) {
    Round round;
    round.Add("a", CodecKind::kFp32, std::vector<float>{1, 2}, 1, 1);
    return *aggregator.CloseRound(kFirst, Version{version}, round.inputs(), sgd);
  };
  (void)close(0);
  const RoundResult second = close(1);
  EXPECT_FALSE(second.momentum_alignment.has_value());
  EXPECT_NEAR(second.step_alignment.value_or(9), 1, 1e-12);
  const Copies held = CopyOf(aggregator);
  ASSERT_TRUE(aggregator.Restore(kFirst, {Version{2}, held.public_copy, held.momentum, held.residual}).ok());
  EXPECT_FALSE(close(2).step_alignment.has_value());
}

TEST(CloseRound, MomentumFormLeavesOutTheLookAhead) {
  Aggregator aggregator = Restored(LayoutOf({1}), std::vector<float>{1});
  const OuterParameters parameters = {
      .kind = OuterKind::kMomentum, .learning_rate = 0.5, .momentum = 0.5, .inner_steps = 1};
  for (uint64_t version = 0; version < 2; ++version) {
    Round round;
    round.Add("a", CodecKind::kFp32, std::vector<float>{1}, 1, 1);
    ASSERT_TRUE(aggregator.CloseRound(kFirst, Version{version}, round.inputs(), parameters).ok());
  }
  EXPECT_EQ(CopyOf(aggregator).public_copy[0], 1 - 0.5f * 1 - 0.5f * 1.5f);
}

TEST(CloseRound, ANonFiniteContributionIsNamedAndNothingChanges) {
  const size_t n = 3 * kCodecBlock + 1;
  for (const CodecKind codec :
       {CodecKind::kFp32, CodecKind::kFp16, CodecKind::kBf16, CodecKind::kInt8, CodecKind::kMxfp4}) {
    Aggregator aggregator = Restored(LayoutOf({n}), Normals(1, n), 7);
    const Copies before = CopyOf(aggregator);
    std::vector<float> broken = Normals(3, n);
    broken[n - 1] = std::numeric_limits<float>::quiet_NaN();
    Round round;
    round.Add("good", codec, Normals(2, n), 10);
    round.Add("bad", codec, broken, 10);
    const auto result = aggregator.CloseRound(kFirst, Version{7}, round.inputs(), kNesterov, 2);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_FALSE(result->committed);
    ASSERT_EQ(result->non_finite.size(), 1u);
    EXPECT_EQ(result->non_finite[0].value, "bad");
    EXPECT_TRUE(result->update.empty());
    EXPECT_EQ(CopyOf(aggregator), before);
    round.inputs().erase(round.inputs().begin() + 1);
    const auto again = aggregator.CloseRound(kFirst, Version{7}, round.inputs(), kNesterov);
    EXPECT_TRUE(again.ok() && again->committed);
  }
}

// Every sync of the round was dropped on purpose: the version grows, the momentum waits for the next round, and the
// update holds only the download residual.
TEST(CloseRound, WithoutContributionsTakesNoStep) {
  const size_t n = 5000;
  for (const OuterKind kind : {OuterKind::kNesterov, OuterKind::kMomentum, OuterKind::kSgd}) {
    for (const CodecKind codec : {CodecKind::kFp32, CodecKind::kMxfp4}) {
      SCOPED_TRACE(static_cast<int>(kind) * 10 + static_cast<int>(codec));
      OuterParameters parameters = kNesterov;
      parameters.kind = kind;
      parameters.download_codec = codec;
      Aggregator aggregator = Restored(LayoutOf({n}), Normals(1, n));
      Round round;
      round.Add("a", CodecKind::kFp32, Normals(2, n), 10);
      ASSERT_TRUE(aggregator.CloseRound(kFirst, Version{0}, round.inputs(), parameters).ok());
      const Copies before = CopyOf(aggregator);
      const auto result = aggregator.CloseRound(kFirst, Version{1}, {}, parameters);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_TRUE(result->committed);
      EXPECT_TRUE(result->contributions.empty());
      EXPECT_EQ(result->merged_norm, 0);
      EXPECT_EQ(result->outer_step_norm, 0);
      const Copies after = CopyOf(aggregator);
      EXPECT_EQ(after.version, Version{2});
      EXPECT_EQ(after.momentum, before.momentum);
      for (size_t i = 0; i < n; ++i) {
        ASSERT_FLOAT_EQ(after.public_copy[i] + after.residual[i], before.public_copy[i] + before.residual[i]) << i;
      }
      if (codec == CodecKind::kFp32) {
        EXPECT_EQ(after.public_copy, before.public_copy);
      }
      std::vector<float> copy = before.public_copy;
      DecodeAdd(codec, result->update, copy);
      EXPECT_EQ(copy, after.public_copy);
    }
  }
}

TEST(CloseRound, RefusalsChangeNothing) {
  const size_t n = 10;
  Aggregator aggregator = Restored(LayoutOf({n, 4}), Normals(1, n), 3);
  const Copies before = CopyOf(aggregator);
  Round round;
  round.Add("a", CodecKind::kFp32, Normals(2, n), 10);
  const auto close = [&](Version version, std::span<const RoundInput> inputs, const OuterParameters& p) {
    const auto result = aggregator.CloseRound(kFirst, version, inputs, p);
    EXPECT_FALSE(result.ok());
    EXPECT_EQ(CopyOf(aggregator), before);
    return result.status();
  };
  EXPECT_EQ(close(Version{2}, round.inputs(), kNesterov).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(close(Version{4}, round.inputs(), kNesterov).code(), absl::StatusCode::kFailedPrecondition);

  OuterParameters bad = kNesterov;
  bad.momentum = 1;
  EXPECT_EQ(close(Version{3}, round.inputs(), bad).code(), absl::StatusCode::kInvalidArgument);
  bad = kNesterov;
  bad.learning_rate = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(close(Version{3}, round.inputs(), bad).code(), absl::StatusCode::kInvalidArgument);
  bad = kNesterov;
  bad.loco.beta = 1;
  EXPECT_EQ(close(Version{3}, round.inputs(), bad).code(), absl::StatusCode::kInvalidArgument);

  Round twice;
  twice.Add("a", CodecKind::kFp32, Normals(2, n), 10);
  twice.Add("a", CodecKind::kFp32, Normals(3, n), 10);
  EXPECT_EQ(close(Version{3}, twice.inputs(), kNesterov).code(), absl::StatusCode::kInvalidArgument);

  Round shorter;
  shorter.Add("z", CodecKind::kFp32, Normals(2, n - 1), 10);
  const absl::Status status = close(Version{3}, shorter.inputs(), kNesterov);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("worker z"), std::string::npos);
}

TEST(CloseRound, AStepThatCouldOverflowIsRefusedBeforeItBegins) {
  Aggregator aggregator = Restored(LayoutOf({3}), std::vector<float>{1, 2, 3});
  const Copies before = CopyOf(aggregator);
  Round round;
  round.Add("a", CodecKind::kFp32, std::vector<float>{1, 3e38f, 1}, 10);
  const auto result = aggregator.CloseRound(kFirst, Version{0}, round.inputs(), kNesterov);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(CopyOf(aggregator), before);
}

NormHistory EightRoundsOf(double norm) {
  NormHistory history;
  std::vector<NormSample> round;
  for (const char* worker : {"a", "b", "c", "d"}) round.push_back(SampleOf(WorkerId{worker}, 10 * norm, 10, 10));
  for (size_t i = 0; i < kNormRoundsNeeded; ++i) history.Add(round, 0.01);
  return history;
}

// Three workers of norm 10 over 10 steps, and a worker of a `times` larger norm.
Round FourWorkers(float times) {
  Round round;
  for (const char* worker : {"a", "b", "c"}) round.Add(worker, CodecKind::kFp32, std::vector<float>{6, 8, 0}, 10);
  round.Add("d", CodecKind::kFp32, std::vector<float>{6 * times, 8 * times, 0}, 10);
  return round;
}

TEST(NormGate, ARefusedContributionChangesNothing) {
  Aggregator aggregator = Restored(LayoutOf({3}), std::vector<float>{1, 2, 3});
  Aggregator without = Restored(LayoutOf({3}), std::vector<float>{1, 2, 3});
  const Copies before = CopyOf(aggregator);
  const NormHistory history = EightRoundsOf(1);
  const ScreensSpec rule = {.norm = ScreenMode::kEnforce};
  const NormGate gate{history, rule, 0.01};
  Round round = FourWorkers(1000);
  const auto refused = aggregator.CloseRound(kFirst, Version{0}, round.inputs(), kNesterov, 2, &gate);
  ASSERT_TRUE(refused.ok()) << refused.status();
  EXPECT_FALSE(refused->committed);
  ASSERT_EQ(refused->norms.size(), 4u);
  EXPECT_EQ(refused->norms[0].action, NormAction::kPass);
  EXPECT_EQ(refused->norms[3].action, NormAction::kRefuse);
  EXPECT_NEAR(refused->norms[3].ratio, 1000, 0.1);
  EXPECT_TRUE(refused->update.empty());
  EXPECT_EQ(CopyOf(aggregator), before);
  round.inputs().pop_back();
  const auto again = aggregator.CloseRound(kFirst, Version{0}, round.inputs(), kNesterov, 2, &gate);
  const auto never = without.CloseRound(kFirst, Version{0}, round.inputs(), kNesterov);
  ASSERT_TRUE(again.ok() && again->committed && never.ok());
  EXPECT_EQ(again->hash, never->hash);
}

TEST(NormGate, AClippedContributionIsReplayedFromItsFactor) {
  Aggregator aggregator = Restored(LayoutOf({3}), std::vector<float>{1, 2, 3});
  Aggregator replay = Restored(LayoutOf({3}), std::vector<float>{1, 2, 3});
  Aggregator smaller = Restored(LayoutOf({3}), std::vector<float>{1, 2, 3});
  const NormHistory history = EightRoundsOf(1);
  const ScreensSpec rule = {.norm = ScreenMode::kEnforce};
  const NormGate gate{history, rule, 0.01};
  Round round = FourWorkers(6);
  const auto clipped = aggregator.CloseRound(kFirst, Version{0}, round.inputs(), kNesterov, 1, &gate);
  ASSERT_TRUE(clipped.ok() && clipped->committed);
  EXPECT_EQ(clipped->contributions[2].clip_factor, 1);
  EXPECT_EQ(clipped->contributions[3].clip_factor, 0.5);
  EXPECT_EQ(clipped->contributions[3].weight, 0.25);
  EXPECT_EQ(clipped->contributions[3].norm, 60);
  round.inputs()[3].clip_factor = 0.5;
  const auto replayed = replay.CloseRound(kFirst, Version{0}, round.inputs(), kNesterov);
  ASSERT_TRUE(replayed.ok());
  EXPECT_EQ(replayed->hash, clipped->hash);
  Round as_if = FourWorkers(3);
  const auto at_the_limit = smaller.CloseRound(kFirst, Version{0}, as_if.inputs(), kNesterov);
  ASSERT_TRUE(at_the_limit.ok());
  EXPECT_EQ(at_the_limit->hash, clipped->hash);
}

TEST(NormGate, PossibleOverflowIsRefused) {
  Aggregator aggregator = Restored(LayoutOf({3}), std::vector<float>{1, 2, 3});
  const Copies before = CopyOf(aggregator);
  Round round;
  round.Add("a", CodecKind::kFp32, std::vector<float>{1, 1, 1}, 10);
  round.Add("b", CodecKind::kFp32, std::vector<float>{1, 3e38f, 1}, 10);
  const NormHistory history;
  const ScreensSpec rule = {.norm = ScreenMode::kReport};
  const NormGate gate{history, rule, 0.01};
  const auto result = aggregator.CloseRound(kFirst, Version{0}, round.inputs(), kNesterov, 1, &gate);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->committed);
  EXPECT_EQ(result->too_large, std::vector<WorkerId>{WorkerId{"b"}});
  EXPECT_EQ(CopyOf(aggregator), before);
}

TEST(CloseRound, FragmentsAreIndependent) {
  Aggregator aggregator(LayoutOf({4, 6}));
  ASSERT_TRUE(aggregator.Restore(kFirst, {Version{0}, Normals(1, 4), {}, {}}).ok());
  ASSERT_TRUE(aggregator.Restore(kSecond, {Version{9}, Normals(2, 6), {}, {}}).ok());
  const Copies first = CopyOf(aggregator);
  Round round;
  round.Add("a", CodecKind::kFp16, Normals(3, 6), 10);
  ASSERT_TRUE(aggregator.CloseRound(kSecond, Version{9}, round.inputs(), kNesterov).ok());
  EXPECT_EQ(CopyOf(aggregator), first);
  EXPECT_EQ(aggregator.version(kSecond).value, 10u);
  EXPECT_EQ(aggregator.fragments(), 2u);
}

TEST(Replay, FromASnapshotGivesTheSameHash) {
  const size_t n = 9000;
  const ModelLayout layout = LayoutOf({n});
  Aggregator live = Restored(layout, Normals(1, n));
  OuterParameters parameters = kNesterov;
  parameters.download_codec = CodecKind::kMxfp4;
  std::vector<std::unique_ptr<Round>> log;
  std::vector<RoundResult> results;
  Copies snapshot;
  std::vector<float> worker_copy = Normals(1, n);
  for (uint64_t version = 0; version < 6; ++version) {
    if (version == 3) snapshot = CopyOf(live);
    log.push_back(std::make_unique<Round>());
    for (uint64_t w = 0; w < 3; ++w) {
      log.back()->Add("w" + std::to_string(w), CodecKind::kInt8, Normals(100 * version + w, n, 0.01f), 10 + w);
    }
    auto result = live.CloseRound(kFirst, Version{version}, log.back()->inputs(), parameters);
    ASSERT_TRUE(result.ok());
    DecodeAdd(CodecKind::kMxfp4, result->update, worker_copy);
    EXPECT_TRUE(std::ranges::equal(worker_copy, live.State(kFirst).public_copy));
    results.push_back(*std::move(result));
  }
  Aggregator recovered(layout);
  ASSERT_TRUE(
      recovered.Restore(kFirst, {snapshot.version, snapshot.public_copy, snapshot.momentum, snapshot.residual}).ok());
  for (uint64_t version = 3; version < 6; ++version) {
    const auto result = recovered.CloseRound(kFirst, Version{version}, log[version]->inputs(), parameters, 2);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->hash, results[version].hash);
    EXPECT_EQ(result->update, results[version].update);
  }
  EXPECT_EQ(CopyOf(recovered), CopyOf(live));
}

TEST(Restore, RefusesWrongLengthsAndValues) {
  Aggregator aggregator = Restored(LayoutOf({3}), std::vector<float>{1, 2, 3}, 5);
  const Copies before = CopyOf(aggregator);
  const std::vector<float> good = {1, 1, 1}, shorter = {1, 1}, broken = {1, std::numeric_limits<float>::infinity(), 1};
  for (const FragmentStateView& state :
       {FragmentStateView{Version{1}, {}, {}, {}}, FragmentStateView{Version{1}, shorter, {}, {}},
        FragmentStateView{Version{1}, broken, {}, {}}, FragmentStateView{Version{1}, good, shorter, {}},
        FragmentStateView{Version{1}, good, good, broken}}) {
    EXPECT_EQ(aggregator.Restore(kFirst, state).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(CopyOf(aggregator), before);
  }
}

// The admission of the job leaves no memory for another copy in addition to the source and the state.
TEST(Restore, FillsTheMemoryThatIsHeld) {
  const std::vector<float> start = {1, 2, 3}, momentum = {4, 5, 6}, residual = {7, 8, 9};
  Aggregator aggregator = Restored(LayoutOf({3}), start);
  const FragmentStateView held = aggregator.State(kFirst);
  ASSERT_TRUE(aggregator.Restore(kFirst, {Version{4}, residual, momentum, start}).ok());
  EXPECT_EQ(CopyOf(aggregator), (Copies{residual, momentum, start, Version{4}}));
  ASSERT_TRUE(aggregator.Restore(kFirst, {Version{5}, momentum, {}, {}}).ok());
  EXPECT_EQ(CopyOf(aggregator), (Copies{momentum, {0, 0, 0}, {0, 0, 0}, Version{5}}));
  const FragmentStateView now = aggregator.State(kFirst);
  EXPECT_EQ(now.public_copy.data(), held.public_copy.data());
  EXPECT_EQ(now.momentum.data(), held.momentum.data());
  EXPECT_EQ(now.residual.data(), held.residual.data());
}

}  // namespace
}  // namespace atl
