// SPDX-License-Identifier: Apache-2.0
#include "worker/model/model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "common/base/random.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/gpu/host_pass_kernels.h"
#include "tests/unit/worker/model/reference_llama.h"

namespace atl {
namespace {

constexpr int32_t kEndOfText = 3;

struct Shape {
  const char* name;
  uint32_t heads, kv_heads;
  bool tied, separate;
  FragmentPattern pattern;
  bool qk_norm = false;
  double z_loss = 0;
};

ModelSpec SpecOf(const Shape& shape) {
  ModelSpec m;
  m.vocab_size = 19;
  m.hidden_size = 16;
  m.intermediate_size = 24;
  m.layers = 3;
  m.heads = shape.heads;
  m.kv_heads = shape.kv_heads;
  m.head_dim = 6;
  m.tie_embeddings = shape.tied;
  m.qk_norm = shape.qk_norm;
  m.z_loss = shape.z_loss;
  m.init_std = 0.3;  // large enough that every path matters
  return m;
}

// A model with its arenas and seeded parameters; norms are moved away from 1 so that their weights
// matter.
struct Fixture {
  explicit Fixture(const ModelSpec& m, bool separate = false, FragmentPattern pattern = FragmentPattern::kWhole,
                   ModelOptions options = {})
      : spec(m), layout(MakeModelLayout(m, pattern, 1)) {
    parameters = *Arena::Create(layout.elements, {});
    gradients = *Arena::Create(layout.elements, {});
    InitialParameters(layout, 7, 0, parameters->host());
    for (const TensorInfo& t : layout.tensors) {
      for (uint64_t i = 0; t.init == InitKind::kOnes && i < t.elements; ++i) {
        parameters->host()[t.offset + i] += 0.2f * NormalAt(99, t.offset + i);
      }
    }
    options.separate_documents = separate;
    options.end_of_text = separate ? kEndOfText : -1;
    auto made = Model::Create(spec, layout, options, *parameters, gradients.get());
    EXPECT_TRUE(made.ok()) << made.status();
    model = *std::move(made);
  }
  const ModelSpec spec;
  const ModelLayout layout;
  std::unique_ptr<Arena> parameters, gradients;
  std::unique_ptr<Model> model;
};

std::vector<int32_t> Tokens(size_t count, uint32_t vocab, uint64_t key = 5) {
  Rng rng(key);
  std::vector<int32_t> out(count);
  for (int32_t& t : out) t = static_cast<int32_t>(rng.Below(vocab));
  return out;
}

std::vector<int32_t> Row(const std::vector<int32_t>& tokens, size_t row, size_t length) {
  return {tokens.begin() + static_cast<ptrdiff_t>(row * length),
          tokens.begin() + static_cast<ptrdiff_t>((row + 1) * length)};
}

class ModelShapes : public testing::TestWithParam<Shape> {};

TEST_P(ModelShapes, LogitsEqualTheReference) {
  Fixture f(SpecOf(GetParam()), GetParam().separate, GetParam().pattern);
  const int32_t end = GetParam().separate ? kEndOfText : -1;
  std::vector<int32_t> tokens = Tokens(2 * 12, f.spec.vocab_size);
  tokens[4] = tokens[5] = tokens[16] = kEndOfText;  // also two in a row
  std::vector<float> logits(tokens.size() * f.spec.vocab_size);
  ASSERT_TRUE(f.model->Logits({tokens, 2}, logits).ok());
  const test::ReferenceLlama reference(f.spec, f.layout, f.parameters->host());
  for (size_t row = 0; row < 2; ++row) {
    const auto expected = reference.Logits(Row(tokens, row, 12), end);
    for (size_t i = 0; i < 12; ++i) {
      for (size_t v = 0; v < f.spec.vocab_size; ++v) {
        ASSERT_NEAR(logits[(row * 12 + i) * f.spec.vocab_size + v], expected[i][v], 2e-5)
            << row << " " << i << " " << v;
      }
    }
  }
  std::vector<float> last(2 * f.spec.vocab_size);
  ASSERT_TRUE(f.model->LastLogits({tokens, 2}, last).ok());
  for (size_t v = 0; v < f.spec.vocab_size; ++v) {
    EXPECT_NEAR(last[v], logits[11 * f.spec.vocab_size + v], 1e-6);
  }
}

void ExpectGradientsOfTheReference(const Shape& shape, const ModelOptions& options) {
  Fixture f(SpecOf(shape), shape.separate, shape.pattern, options);
  const int32_t end = shape.separate ? kEndOfText : -1;
  std::vector<int32_t> tokens = Tokens(2 * 9, f.spec.vocab_size);
  tokens[3] = tokens[13] = kEndOfText;
  const double scale = 0.125;
  const auto sum = f.model->ForwardBackward({tokens, 2}, scale);
  ASSERT_TRUE(sum.ok()) << sum.status();
  test::ReferenceLlama reference(f.spec, f.layout, f.parameters->host());
  const auto both = [&](double z_loss) {
    return reference.Loss(Row(tokens, 0, 9), end, z_loss) + reference.Loss(Row(tokens, 1, 9), end, z_loss);
  };
  const auto loss = [&] { return both(shape.z_loss); };
  EXPECT_NEAR(sum->nll, both(0), 1e-4) << "what is shown has no z-loss";
  EXPECT_EQ(sum->targets, 16u);
  for (const TensorInfo& t : f.layout.tensors) {  // a few elements of every tensor
    for (uint64_t i = 0; i < 6; ++i) {
      const uint64_t at = t.offset + Permute(11, t.elements, i);
      double& p = reference.parameter(at);
      const double before = p, h = 1e-5;
      p = before + h;
      const double above = loss();
      p = before - h;
      const double below = loss();
      p = before;
      const double expected = scale * (above - below) / (2 * h);
      EXPECT_NEAR(f.gradients->host()[at], expected, 1e-5 + 1e-4 * std::abs(expected))
          << t.name << " " << at - t.offset;
    }
  }
}

TEST_P(ModelShapes, GradientsEqualFiniteDifferencesOfTheReference) { ExpectGradientsOfTheReference(GetParam(), {}); }

TEST_P(ModelShapes, GradientsByAutogradDoAsWell) { ExpectGradientsOfTheReference(GetParam(), {.as_on_gpu = true}); }

TEST_P(ModelShapes, GradientsByAGpusKernelsDoAsWell) {
  for (const int64_t rows : {0, 7}) {
    HostPassKernels kernels;
    ExpectGradientsOfTheReference(GetParam(), {.kernels = &kernels, .as_on_gpu = true, .score_rows = rows});
    EXPECT_GT(kernels.calls(), 0u);
  }
}

// Scores of some of the 16 targets at a time; the last pass has fewer rows.
TEST_P(ModelShapes, SoTheyDoWithScoresOfSomeRowsAtATime) {
  ExpectGradientsOfTheReference(GetParam(), {.as_on_gpu = true, .score_rows = 5});
}

INSTANTIATE_TEST_SUITE_P(All, ModelShapes,
                         testing::Values(Shape{"tied", 4, 4, true, false, FragmentPattern::kWhole},
                                         Shape{"untied", 4, 4, false, false, FragmentPattern::kStrided},
                                         Shape{"grouped", 4, 2, true, false, FragmentPattern::kSequential},
                                         Shape{"one_key_head", 4, 1, false, false, FragmentPattern::kWhole},
                                         Shape{"documents", 4, 2, true, true, FragmentPattern::kBalanced},
                                         Shape{"qk_norm", 4, 2, true, false, FragmentPattern::kStrided, true},
                                         Shape{"z_loss", 4, 4, true, false, FragmentPattern::kWhole, false, 0.05}),
                         [](const testing::TestParamInfo<Shape>& param) { return std::string(param.param.name); });

const Shape kPlain{"plain", 4, 2, true, false, FragmentPattern::kWhole};

TEST(Model, GradientsAccumulate) {
  Fixture f(SpecOf(kPlain));
  const std::vector<int32_t> tokens = Tokens(2 * 9, f.spec.vocab_size);
  ASSERT_TRUE(f.model->ForwardBackward({tokens, 2}, 1.0).ok());
  const std::vector<float> once(f.gradients->host().begin(), f.gradients->host().end());
  ASSERT_TRUE(f.model->ForwardBackward({tokens, 2}, 1.0).ok());
  for (size_t i = 0; i < once.size(); ++i)
    ASSERT_NEAR(f.gradients->host()[i], 2 * once[i], 1e-6 + 1e-6 * std::abs(once[i])) << i;
}

TEST(Model, SameInputsGiveTheSameBits) {
  const std::vector<int32_t> tokens = Tokens(4 * 33, 19);
  std::vector<float> first;
  for (int round = 0; round < 3; ++round) {
    Fixture f(SpecOf(kPlain));
    ASSERT_TRUE(f.model->ForwardBackward({tokens, 4}, 0.01).ok());
    const std::span<float> g = f.gradients->host();
    if (round == 0) first.assign(g.begin(), g.end());
    EXPECT_EQ(std::memcmp(first.data(), g.data(), g.size_bytes()), 0) << round;
  }
}

// A reported gradient may be exchanged at once: nothing may be added to it later.
TEST(Model, EachCompleteGradientIsReportedOnce) {
  for (const bool tied : {true, false}) {
    for (const ModelOptions& options : {ModelOptions{}, ModelOptions{.as_on_gpu = true, .score_rows = 7}}) {
      ModelSpec spec = SpecOf(kPlain);
      spec.tie_embeddings = tied;
      Fixture f(spec, false, FragmentPattern::kWhole, options);
      std::map<uint64_t, uint64_t> ranges;  // elements by offset
      for (const ArenaRange& range : f.model->Gradients()) ranges[range.offset] = range.elements;
      std::map<uint64_t, std::vector<float>> told;
      f.model->OnGradient([&](uint64_t offset) {
        const std::span<float> values = f.gradients->host().subspan(offset, ranges.at(offset));
        EXPECT_TRUE(told.try_emplace(offset, values.begin(), values.end()).second) << "told twice: " << offset;
      });
      ASSERT_TRUE(f.model->ForwardBackward({Tokens(3 * 17, spec.vocab_size), 3}, 1.0).ok());
      ASSERT_EQ(told.size(), ranges.size()) << (tied ? "tied" : "untied");
      for (const auto& [offset, values] : told) {
        const std::span<float> now = f.gradients->host().subspan(offset, values.size());
        EXPECT_TRUE(std::equal(values.begin(), values.end(), now.begin())) << "changed after it was told: " << offset;
      }
    }
  }
}

TEST(Model, EvaluationGivesTheLossOfTraining) {
  for (const ModelOptions& options :
       {ModelOptions{}, ModelOptions{.as_on_gpu = true}, ModelOptions{.as_on_gpu = true, .score_rows = 7}}) {
    Fixture f(SpecOf(kPlain), false, FragmentPattern::kWhole, options);
    const std::vector<int32_t> tokens = Tokens(3 * 17, f.spec.vocab_size);
    const auto trained = f.model->ForwardBackward({tokens, 3}, 1.0);
    const auto evaluated = f.model->ForwardLoss({tokens, 3});
    ASSERT_TRUE(trained.ok() && evaluated.ok());
    EXPECT_EQ(trained->nll, evaluated->nll);
    EXPECT_EQ(evaluated->targets, 48u);
  }
}

// A device's feed on a CPU: records the values, or fails.
class NotingFeed final : public HostFeed {
 public:
  absl::Status Put(Bytes bytes, void* to, void* /*compute_stream*/) override {
    if (fails) return absl::InternalError("the device is lost");
    std::memcpy(to, bytes.data(), bytes.size());
    put += bytes.size();
    return absl::OkStatus();
  }
  bool fails = false;
  size_t put = 0;
};

TEST(Model, TokensGoByTheFeed) {
  for (const bool as_on_gpu : {false, true}) {
    NotingFeed feed;
    Fixture plain(SpecOf(kPlain), false, FragmentPattern::kWhole, {.as_on_gpu = as_on_gpu}),
        fed(SpecOf(kPlain), false, FragmentPattern::kWhole, {.feed = &feed, .as_on_gpu = as_on_gpu});
    const std::vector<int32_t> tokens = Tokens(3 * 17, fed.spec.vocab_size);
    const auto wanted = plain.model->ForwardBackward({tokens, 3}, 1.0),
               got = fed.model->ForwardBackward({tokens, 3}, 1.0);
    ASSERT_TRUE(wanted.ok() && got.ok()) << wanted.status() << got.status();
    EXPECT_EQ(got->nll, wanted->nll);
    EXPECT_EQ(feed.put, tokens.size() * sizeof(int32_t));
    feed.fails = true;
    EXPECT_TRUE(absl::IsInternal(fed.model->ForwardBackward({tokens, 3}, 1.0).status()));
    EXPECT_TRUE(absl::IsInternal(fed.model->ForwardLoss({tokens, 3}).status()));
  }
}

TEST(Model, LossesAddUpUntilTheyAreTaken) {
  for (const bool as_on_gpu : {false, true}) {
    Fixture f(SpecOf(kPlain), false, FragmentPattern::kWhole, {.as_on_gpu = as_on_gpu});
    const std::vector<int32_t> first = Tokens(17, f.spec.vocab_size), second = Tokens(2 * 17, f.spec.vocab_size, 6);
    const auto one = f.model->ForwardBackward({first, 1}, 1.0), two = f.model->ForwardBackward({second, 2}, 1.0);
    ASSERT_TRUE(one.ok() && two.ok());
    ASSERT_TRUE(f.model->AddForwardBackward({second, 2}, 1.0).ok());
    ASSERT_TRUE(f.model->ForgetLoss().ok());
    ASSERT_TRUE(f.model->AddForwardBackward({first, 1}, 1.0).ok());
    ASSERT_TRUE(f.model->AddForwardBackward({second, 2}, 1.0).ok());
    const auto sum = f.model->TakeLoss(), nothing = f.model->TakeLoss();
    ASSERT_TRUE(sum.ok() && nothing.ok());
    EXPECT_EQ(sum->nll, one->nll + two->nll);
    EXPECT_EQ(sum->targets, 48u);
    EXPECT_EQ(nothing->nll, 0);
    EXPECT_EQ(nothing->targets, 0u);
  }
}

void ExpectBf16NearFp32(const ModelOptions& options) {
  ModelSpec spec = SpecOf(kPlain);
  spec.init_std = 0.05;
  Fixture exact(spec);
  spec.precision = Precision::kBf16;
  Fixture rounded(spec, false, FragmentPattern::kWhole, options);
  const std::vector<int32_t> tokens = Tokens(4 * 33, spec.vocab_size);
  const auto a = exact.model->ForwardBackward({tokens, 4}, 1.0 / 128),
             b = rounded.model->ForwardBackward({tokens, 4}, 1.0 / 128);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NEAR(b->nll / a->nll, 1.0, 2e-3);
  double dot = 0, square_a = 0, square_b = 0;
  for (size_t i = 0; i < exact.layout.elements; ++i) {
    const double x = exact.gradients->host()[i], y = rounded.gradients->host()[i];
    dot += x * y;
    square_a += x * x;
    square_b += y * y;
  }
  EXPECT_GT(dot / std::sqrt(square_a * square_b), 0.999);

  std::fill(rounded.parameters->host().begin(), rounded.parameters->host().end(), 0.0f);
  rounded.model->ParametersChanged();
  const auto uniform = rounded.model->ForwardLoss({tokens, 4});
  ASSERT_TRUE(uniform.ok());
  EXPECT_NEAR(uniform->nll / 128, std::log(19.0), 1e-5);
}

TEST(Model, Bf16IsNearFp32AndFollowsTheMaster) { ExpectBf16NearFp32({}); }

TEST(Model, SoItIsWithProductsOfBf16) { ExpectBf16NearFp32({.bf16_products = true}); }

TEST(Model, AndByAutograd) { ExpectBf16NearFp32({.as_on_gpu = true, .bf16_products = true}); }

// A model in bf16 with its rounded copy, and a pass that updates the copy.
struct RoundedFixture : Fixture {
  static ModelSpec Spec() {
    ModelSpec spec = SpecOf(kPlain);
    spec.precision = Precision::kBf16;
    return spec;
  }
  RoundedFixture() : Fixture(Spec(), false, FragmentPattern::kWhole, {.bf16_products = true}) { Refresh(); }
  void Refresh() {
    const std::vector<int32_t> tokens = Tokens(9, spec.vocab_size);
    ASSERT_TRUE(model->ForwardLoss({tokens, 1}).ok());
  }
};

TEST(Model, OnlyChangedRangesAreRoundedAgain) {
  RoundedFixture f;
  const std::span<uint16_t> rounded = f.model->Rounded();
  ASSERT_EQ(rounded.size(), f.layout.elements);
  const std::vector<uint16_t> before(rounded.begin(), rounded.end());
  std::fill(rounded.begin(), rounded.end(), uint16_t{0});
  f.model->ParametersChanged({10, 5});
  f.model->ParametersChanged({f.layout.elements - 1, 1});
  f.Refresh();
  for (size_t i = 0; i < before.size(); ++i) {
    const bool changed = (i >= 10 && i < 15) || i + 1 == before.size();
    ASSERT_EQ(rounded[i], changed ? before[i] : 0) << i;
  }
  for (uint64_t i = 0; i < 300; ++i) f.model->ParametersChanged({i, 1});  // more than are refreshed one by one
  f.Refresh();
  EXPECT_TRUE(std::equal(before.begin(), before.end(), rounded.begin()));
}

TEST(Model, ARoundedCopyThatWasWrittenIsLeftAsItIs) {
  RoundedFixture f;
  const std::span<uint16_t> rounded = f.model->Rounded();
  std::fill(rounded.begin(), rounded.end(), uint16_t{0});
  f.model->ParametersChanged();
  f.model->RoundedWritten();
  f.Refresh();
  EXPECT_TRUE(std::all_of(rounded.begin(), rounded.end(), [](uint16_t x) { return x == 0; }));
  EXPECT_TRUE(Fixture(SpecOf(kPlain)).model->Rounded().empty()) << "fp32 has no copy";
}

TEST(Model, RefusesTokensOutsideTheVocabulary) {
  Fixture f(SpecOf(kPlain));
  for (const int32_t bad : {-1, 19}) {
    std::vector<int32_t> tokens = Tokens(10, 19);
    tokens[7] = bad;
    const auto sum = f.model->ForwardBackward({tokens, 1}, 1.0);
    EXPECT_TRUE(absl::IsInvalidArgument(sum.status()));
    EXPECT_NE(sum.status().message().find("outside the vocabulary of 19"), std::string::npos);
  }
  const std::vector<int32_t> ragged = Tokens(10, 19);
  EXPECT_TRUE(absl::IsInvalidArgument(f.model->ForwardLoss({ragged, 3}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(f.model->ForwardLoss({{}, 0}).status()));
}

TEST(Model, RefusesDocumentsWithoutAnEndOfTextToken) {
  const ModelSpec spec = SpecOf(kPlain);
  const ModelLayout layout = MakeModelLayout(spec, FragmentPattern::kWhole, 1);
  const auto arena = Arena::Create(layout.elements, {});
  const auto made = Model::Create(spec, layout, {.separate_documents = true}, **arena, nullptr);
  EXPECT_TRUE(absl::IsInvalidArgument(made.status()));
}

TEST(Arena, ReadsAndWritesRanges) {
  const auto arena = Arena::Create(10, {});
  ASSERT_TRUE(arena.ok());
  const std::vector<float> values = {1, 2, 3};
  ASSERT_TRUE((*arena)->Write(4, values).ok());
  std::vector<float> out(5);
  ASSERT_TRUE((*arena)->Read(3, out).ok());
  EXPECT_EQ(out, (std::vector<float>{0, 1, 2, 3, 0}));
  EXPECT_EQ((*arena)->host().size(), 10u);
  ASSERT_TRUE((*arena)->Zero().ok());
  EXPECT_EQ((*arena)->host()[5], 0.0f);

  std::vector<float> own = {5, 6};
  const auto wrapped = Arena::Wrap(own);
  EXPECT_EQ(wrapped->host().data(), own.data());
}

TEST(Arena, SaysWhenMemoryIsNotThere) {
  const auto arena = Arena::Create(uint64_t{1} << 50, {});
  EXPECT_TRUE(absl::IsResourceExhausted(arena.status())) << arena.status();
  EXPECT_EQ(arena.status().message().find('\n'), std::string::npos);
}

TEST(Arena, SaysWhenThereIsNoGpu) {
  const auto arena = Arena::Create(16, {.gpu = true});
  EXPECT_TRUE(absl::IsFailedPrecondition(arena.status())) << arena.status();
}

}  // namespace
}  // namespace atl
