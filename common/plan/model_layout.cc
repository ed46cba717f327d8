// SPDX-License-Identifier: Apache-2.0
#include "common/plan/model_layout.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/random.h"

namespace atl {
namespace {

TensorInfo Tensor(std::string name, std::vector<uint64_t> shape, int32_t layer) {
  TensorInfo t;
  t.name = std::move(name);
  t.elements = 1;
  for (const uint64_t n : shape) t.elements *= n;
  t.shape = std::move(shape);
  t.layer = layer;
  return t;
}

TensorInfo Norm(std::string name, uint64_t n, int32_t layer) {
  TensorInfo t = Tensor(std::move(name), {n}, layer);
  t.init = InitKind::kOnes;
  t.decay = false;
  return t;
}

TensorInfo Matrix(std::string name, uint64_t rows, uint64_t columns, int32_t layer, double init_std) {
  TensorInfo t = Tensor(std::move(name), {rows, columns}, layer);
  t.init_std = init_std;
  return t;
}

void AppendBlock(const ModelSpec& m, uint32_t layer, std::vector<TensorInfo>& out) {
  const std::string prefix = absl::StrCat("model.layers.", layer, ".");
  const int32_t l = static_cast<int32_t>(layer);
  const uint64_t hidden = m.hidden_size, inner = m.intermediate_size;
  const uint64_t query = uint64_t{m.heads} * m.head_dim, key = uint64_t{m.kv_heads} * m.head_dim;
  const double output_std = m.init_std / std::sqrt(2.0 * m.layers);
  out.push_back(Norm(prefix + "input_layernorm.weight", hidden, l));
  out.push_back(Matrix(prefix + "self_attn.q_proj.weight", query, hidden, l, m.init_std));
  out.push_back(Matrix(prefix + "self_attn.k_proj.weight", key, hidden, l, m.init_std));
  out.push_back(Matrix(prefix + "self_attn.v_proj.weight", key, hidden, l, m.init_std));
  if (m.qk_norm) {
    out.push_back(Norm(prefix + "self_attn.q_norm.weight", m.head_dim, l));
    out.push_back(Norm(prefix + "self_attn.k_norm.weight", m.head_dim, l));
  }
  out.push_back(Matrix(prefix + "self_attn.o_proj.weight", hidden, query, l, output_std));
  out.push_back(Norm(prefix + "post_attention_layernorm.weight", hidden, l));
  out.push_back(Matrix(prefix + "mlp.gate_proj.weight", inner, hidden, l, m.init_std));
  out.push_back(Matrix(prefix + "mlp.up_proj.weight", inner, hidden, l, m.init_std));
  out.push_back(Matrix(prefix + "mlp.down_proj.weight", hidden, inner, l, output_std));
}

// Returns all tensors in the order of their use.
std::vector<TensorInfo> AllTensors(const ModelSpec& m) {
  std::vector<TensorInfo> out;
  out.push_back(Matrix("model.embed_tokens.weight", m.vocab_size, m.hidden_size, -1, m.init_std));
  for (uint32_t layer = 0; layer < m.layers; ++layer) AppendBlock(m, layer, out);
  out.push_back(Norm("model.norm.weight", m.hidden_size, -1));
  if (!m.tie_embeddings) out.push_back(Matrix("lm_head.weight", m.vocab_size, m.hidden_size, -1, m.init_std));
  return out;
}

// The group (fragment) of a transformer block. Blocks have equal sizes in bytes, so `balanced` splits
// them by number.
uint32_t GroupOf(FragmentPattern pattern, uint32_t layer, uint32_t layers, uint32_t per_fragment, uint32_t groups) {
  switch (pattern) {
    case FragmentPattern::kWhole: return 0;
    case FragmentPattern::kStrided: return layer % groups;
    case FragmentPattern::kSequential: return layer / per_fragment;
    case FragmentPattern::kBalanced: return static_cast<uint32_t>(uint64_t{layer} * groups / layers);
  }
  ATOLL_CHECK(false, "a fragment pattern of no known kind");
}

void AssignFragments(const ModelSpec& m, FragmentPattern pattern, uint32_t per_fragment, ModelLayout& layout) {
  const bool whole = pattern == FragmentPattern::kWhole;
  const uint32_t groups = whole ? 0 : (m.layers + per_fragment - 1) / per_fragment;
  for (TensorInfo& t : layout.tensors) {
    t.fragment = whole || t.layer < 0
                     ? groups
                     : GroupOf(pattern, static_cast<uint32_t>(t.layer), m.layers, per_fragment, groups);
  }
  layout.fragments.resize(groups + 1);
}

// Orders tensors by fragment and assigns their offsets.
void PlaceTensors(ModelLayout& layout) {
  std::stable_sort(layout.tensors.begin(), layout.tensors.end(),
                   [](const TensorInfo& a, const TensorInfo& b) { return a.fragment < b.fragment; });
  for (uint32_t i = 0; i < layout.tensors.size(); ++i) {
    TensorInfo& t = layout.tensors[i];
    FragmentInfo& f = layout.fragments[t.fragment];
    if (f.tensors.empty()) f.offset = layout.elements;
    f.tensors.push_back(i);
    f.elements += t.elements;
    t.offset = layout.elements;
    layout.elements += t.elements;
  }
}

Digest DigestOfLayout(const ModelLayout& layout) {
  std::string text = "atoll layout 1\n";
  for (const TensorInfo& t : layout.tensors) {
    absl::StrAppend(&text, t.name, " ", t.offset, " ", t.fragment, " [");
    for (const uint64_t n : t.shape) absl::StrAppend(&text, n, ",");
    absl::StrAppend(&text, "]\n");
  }
  for (const FragmentInfo& f : layout.fragments) absl::StrAppend(&text, f.offset, "+", f.elements, "\n");
  return DigestOf(AsBytes(text));
}

bool IsResolved(const ModelSpec& m) {
  return m.vocab_size > 0 && m.hidden_size > 0 && m.intermediate_size > 0 && m.layers > 0 && m.heads > 0 &&
         m.kv_heads > 0 && m.head_dim > 0;
}

// Fills `out` with the values [first, first + out.size()) of a tensor.
void FillTensor(const TensorInfo& t, uint64_t seed, uint64_t first, std::span<float> out) {
  if (t.init == InitKind::kOnes) {
    std::fill(out.begin(), out.end(), 1.0f);
    return;
  }
  const uint64_t key = StreamKey(seed, "init/" + t.name);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(static_cast<double>(NormalAt(key, first + i)) * t.init_std);
  }
}

}  // namespace

ModelLayout MakeModelLayout(const ModelSpec& model, FragmentPattern pattern, uint32_t layers_per_fragment) {
  ATOLL_CHECK(IsResolved(model), "a layout needs a resolved model");
  ATOLL_CHECK(pattern == FragmentPattern::kWhole || layers_per_fragment >= 1, "a fragment needs a layer");
  ModelLayout layout;
  layout.tensors = AllTensors(model);
  AssignFragments(model, pattern, layers_per_fragment, layout);
  PlaceTensors(layout);
  layout.digest = DigestOfLayout(layout);
  return layout;
}

Digest LayoutDigest(const JobSpec& spec) {
  if (!IsResolved(spec.model)) return {};
  return MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment).digest;
}

void InitialParameters(const ModelLayout& layout, uint64_t seed, uint64_t begin, std::span<float> out) {
  const uint64_t end = begin + out.size();
  ATOLL_CHECK(begin <= end && end <= layout.elements, "the range lies outside the arena");
  for (const TensorInfo& t : layout.tensors) {
    const uint64_t from = std::max(begin, t.offset), to = std::min(end, t.offset + t.elements);
    if (from < to) FillTensor(t, seed, from - t.offset, out.subspan(from - begin, to - from));
  }
}

}  // namespace atl
