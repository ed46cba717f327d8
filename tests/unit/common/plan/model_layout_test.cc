// SPDX-License-Identifier: Apache-2.0
#include "common/plan/model_layout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace atl {
namespace {

ModelSpec Model(uint32_t vocab, uint32_t hidden, uint32_t inner, uint32_t layers, uint32_t heads, uint32_t kv_heads,
                uint32_t head_dim, bool tied) {
  ModelSpec m;
  m.vocab_size = vocab;
  m.hidden_size = hidden;
  m.intermediate_size = inner;
  m.layers = layers;
  m.heads = heads;
  m.kv_heads = kv_heads;
  m.head_dim = head_dim;
  m.tie_embeddings = tied;
  return m;
}

ModelSpec Tiny(uint32_t layers = 7) { return Model(64, 16, 48, layers, 4, 2, 4, false); }

// The example of docs/formats/layout.md. The digest is part of every content hash ever computed.
TEST(ModelLayout, DigestIsAsDocumented) {
  JobSpec spec;
  spec.model = Model(64, 8, 16, 2, 2, 1, 4, true);
  spec.sync.pattern = FragmentPattern::kStrided;
  spec.sync.layers_per_fragment = 1;
  EXPECT_EQ(LayoutDigest(spec).Hex(), "510cbf5c245035a0e7fdbebc3dd5cb45");
  EXPECT_EQ(LayoutDigest(JobSpec{}), Digest{});
}

// Published parameter counts of models of the family.
TEST(ModelLayout, CountsAsLlamaConfigDoes) {
  const auto count = [](const ModelSpec& m) { return MakeModelLayout(m, FragmentPattern::kWhole, 3).elements; };
  EXPECT_EQ(count(Model(32000, 4096, 11008, 32, 32, 32, 128, false)), 6'738'415'616u);  // Llama 2 7B
  EXPECT_EQ(count(Model(32000, 2048, 5632, 22, 32, 4, 64, false)), 1'100'048'384u);     // TinyLlama 1.1B
  EXPECT_EQ(count(Model(128256, 2048, 8192, 16, 32, 8, 64, true)), 1'235'814'400u);     // Llama 3.2 1B
}

TEST(ModelLayout, ShapesAreRowMajorAndNamedAsHuggingFaceDoes) {
  const ModelLayout layout = MakeModelLayout(Tiny(1), FragmentPattern::kWhole, 3);
  ASSERT_EQ(layout.tensors.size(), 12u);
  EXPECT_EQ(layout.tensors[0].name, "model.embed_tokens.weight");
  EXPECT_EQ(layout.tensors[0].shape, (std::vector<uint64_t>{64, 16}));
  EXPECT_EQ(layout.tensors[3].name, "model.layers.0.self_attn.k_proj.weight");
  EXPECT_EQ(layout.tensors[3].shape, (std::vector<uint64_t>{8, 16}));
  EXPECT_EQ(layout.tensors[9].name, "model.layers.0.mlp.down_proj.weight");
  EXPECT_EQ(layout.tensors[9].shape, (std::vector<uint64_t>{16, 48}));
  EXPECT_EQ(layout.tensors[11].name, "lm_head.weight");
  for (const TensorInfo& t : layout.tensors) EXPECT_EQ(t.decay, t.shape.size() == 2) << t.name;
}

void ExpectArenaWithoutHoles(const ModelLayout& layout) {
  uint64_t at = 0;
  for (uint32_t f = 0; f < layout.fragments.size(); ++f) {
    const FragmentInfo& fragment = layout.fragments[f];
    EXPECT_EQ(fragment.offset, at);
    EXPECT_GT(fragment.elements, 0u);
    for (const uint32_t i : fragment.tensors) {
      EXPECT_EQ(layout.tensors[i].fragment, f);
      EXPECT_EQ(layout.tensors[i].offset, at);
      at += layout.tensors[i].elements;
    }
    EXPECT_EQ(fragment.offset + fragment.elements, at);
  }
  EXPECT_EQ(layout.elements, at);
}

std::vector<std::vector<int32_t>> LayersOf(const ModelLayout& layout) {
  std::vector<std::vector<int32_t>> out;
  for (const FragmentInfo& f : layout.fragments) {
    std::set<int32_t> layers;
    for (const uint32_t i : f.tensors) layers.insert(layout.tensors[i].layer);
    out.emplace_back(layers.begin(), layers.end());
  }
  return out;
}

using Groups = std::vector<std::vector<int32_t>>;

TEST(ModelLayout, WholeIsOneFragment) {
  EXPECT_EQ(LayersOf(MakeModelLayout(Tiny(3), FragmentPattern::kWhole, 3)), (Groups{{-1, 0, 1, 2}}));
}

TEST(ModelLayout, StridedDealsBlocksOutInTurn) {
  EXPECT_EQ(LayersOf(MakeModelLayout(Tiny(), FragmentPattern::kStrided, 3)), (Groups{{0, 3, 6}, {1, 4}, {2, 5}, {-1}}));
}

TEST(ModelLayout, SequentialTakesNeighbours) {
  EXPECT_EQ(LayersOf(MakeModelLayout(Tiny(), FragmentPattern::kSequential, 3)),
            (Groups{{0, 1, 2}, {3, 4, 5}, {6}, {-1}}));
}

TEST(ModelLayout, BalancedSplitsNeighboursEvenly) {
  EXPECT_EQ(LayersOf(MakeModelLayout(Tiny(), FragmentPattern::kBalanced, 3)),
            (Groups{{0, 1, 2}, {3, 4}, {5, 6}, {-1}}));
}

TEST(ModelLayout, EveryPatternCoversTheArenaWithoutHoles) {
  for (const auto pattern :
       {FragmentPattern::kWhole, FragmentPattern::kStrided, FragmentPattern::kSequential, FragmentPattern::kBalanced}) {
    for (uint32_t layers = 1; layers <= 9; ++layers) {
      for (uint32_t per = 1; per <= 10; ++per) {
        const ModelLayout layout = MakeModelLayout(Tiny(layers), pattern, per);
        ExpectArenaWithoutHoles(layout);
        EXPECT_EQ(layout.elements, MakeModelLayout(Tiny(layers), FragmentPattern::kWhole, 1).elements);
      }
    }
  }
}

TEST(ModelLayout, DigestsDistinguishLayouts) {
  std::set<Digest> digests;
  digests.insert(MakeModelLayout(Tiny(), FragmentPattern::kWhole, 3).digest);
  digests.insert(MakeModelLayout(Tiny(), FragmentPattern::kStrided, 3).digest);
  digests.insert(MakeModelLayout(Tiny(), FragmentPattern::kSequential, 3).digest);
  digests.insert(MakeModelLayout(Tiny(), FragmentPattern::kSequential, 2).digest);
  digests.insert(MakeModelLayout(Tiny(8), FragmentPattern::kWhole, 3).digest);
  EXPECT_EQ(digests.size(), 5u);
  EXPECT_EQ(MakeModelLayout(Tiny(), FragmentPattern::kWhole, 1).digest,
            MakeModelLayout(Tiny(), FragmentPattern::kWhole, 3).digest);
}

TEST(InitialParameters, AnyRangeIsTheSameAsTheWhole) {
  const ModelLayout layout = MakeModelLayout(Tiny(2), FragmentPattern::kStrided, 1);
  std::vector<float> whole(layout.elements);
  InitialParameters(layout, 7, 0, whole);
  for (uint64_t begin = 0; begin < layout.elements; begin += 611) {
    std::vector<float> part(std::min<uint64_t>(1000, layout.elements - begin));
    InitialParameters(layout, 7, begin, part);
    for (size_t i = 0; i < part.size(); ++i) ASSERT_EQ(part[i], whole[begin + i]);
  }
}

TEST(InitialParameters, DoNotDependOnTheFragmentPlan) {
  const ModelLayout a = MakeModelLayout(Tiny(4), FragmentPattern::kWhole, 1);
  const ModelLayout b = MakeModelLayout(Tiny(4), FragmentPattern::kStrided, 2);
  for (const TensorInfo& t : a.tensors) {
    for (const TensorInfo& u : b.tensors) {
      if (t.name != u.name) continue;
      std::vector<float> x(t.elements), y(u.elements);
      InitialParameters(a, 3, t.offset, x);
      InitialParameters(b, 3, u.offset, y);
      EXPECT_EQ(x, y) << t.name;
    }
  }
}

TEST(InitialParameters, HaveTheSpreadOfTheirKind) {
  ModelSpec m = Model(512, 64, 192, 2, 4, 4, 16, false);
  m.init_std = 0.02;
  const ModelLayout layout = MakeModelLayout(m, FragmentPattern::kWhole, 1);
  for (const TensorInfo& t : layout.tensors) {
    std::vector<float> values(t.elements);
    InitialParameters(layout, 1, t.offset, values);
    double sum = 0, squares = 0;
    for (const float v : values) {
      sum += v;
      squares += static_cast<double>(v) * v;
    }
    const double n = static_cast<double>(values.size()), mean = sum / n, std = std::sqrt(squares / n - mean * mean);
    if (t.init == InitKind::kOnes) {
      EXPECT_EQ(mean, 1.0) << t.name;
      continue;
    }
    const bool output = t.name.find("o_proj") != std::string::npos || t.name.find("down_proj") != std::string::npos;
    const double expected = output ? 0.02 / 2 : 0.02;  // 1 / sqrt(2 layers) = 1/2
    EXPECT_NEAR(mean, 0, expected * 5 / std::sqrt(n)) << t.name;
    EXPECT_NEAR(std, expected, expected * 0.05) << t.name;
  }
}

TEST(InitialParameters, SeedsGiveDifferentValues) {
  const ModelLayout layout = MakeModelLayout(Tiny(1), FragmentPattern::kWhole, 1);
  std::vector<float> a(64), b(64);
  InitialParameters(layout, 1, 0, a);
  InitialParameters(layout, 2, 0, b);
  EXPECT_NE(a, b);
}

}  // namespace
}  // namespace atl
