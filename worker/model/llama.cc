// SPDX-License-Identifier: Apache-2.0
#include "worker/model/llama.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>
#include <map>
#include <string>

#include "common/base/check.h"
#include "worker/model/pass_ops.h"

namespace atl {
namespace {

int64_t Signed(uint64_t n) { return static_cast<int64_t>(n); }

// Finds tensors by name and makes views of them.
class Mapper {
 public:
  Mapper(const ModelLayout& layout, const at::Tensor& arena, bool trainable) : arena_(arena), trainable_(trainable) {
    ATOLL_CHECK(Signed(layout.elements) == arena.numel(), "the arena has the layout's size");
    for (const TensorInfo& t : layout.tensors) by_name_[t.name] = &t;
  }

  // One matrix of the rows of all named tensors, which are adjacent.
  at::Tensor Rows(const std::string& prefix, std::initializer_list<const char*> names, LlamaWeights& out) {
    const TensorInfo& first = Info(prefix + *names.begin());
    uint64_t rows = 0, end = first.offset;
    for (const char* name : names) {
      const TensorInfo& t = Info(prefix + name);
      ATOLL_CHECK(t.offset == end, "projections of one input lie side by side in the arena");
      ATOLL_CHECK(t.shape.size() == 2 && t.shape[1] == first.shape[1], "and have one width");
      rows += t.shape[0];
      end += t.elements;
    }
    return View(first.offset, {Signed(rows), Signed(first.shape[1])}, out);
  }
  at::Tensor Vector(const std::string& name, LlamaWeights& out) {
    const TensorInfo& t = Info(name);
    return View(t.offset, {Signed(t.elements)}, out);
  }

 private:
  const TensorInfo& Info(const std::string& name) const {
    const auto found = by_name_.find(name);
    ATOLL_CHECK(found != by_name_.end(), "the layout has every tensor of the model");
    return *found->second;
  }
  at::Tensor View(uint64_t offset, at::IntArrayRef shape, LlamaWeights& out) {
    auto* base = static_cast<std::byte*>(arena_.data_ptr()) + offset * static_cast<uint64_t>(arena_.element_size());
    at::Tensor view = at::from_blob(base, shape, arena_.options());
    view.set_requires_grad(trainable_);
    out.leaves.push_back(view);
    out.offsets.push_back(offset);
    return view;
  }

  const at::Tensor& arena_;
  const bool trainable_;
  std::map<std::string, const TensorInfo*> by_name_;
};

// The number of the document of each position, and the position inside it; an end-of-text token is
// the last of its document. int64 [sequences, length] each.
std::pair<at::Tensor, at::Tensor> Documents(const at::Tensor& tokens, int64_t end_of_text) {
  const int64_t length = tokens.size(1);
  const at::Tensor ends = tokens.eq(end_of_text).to(at::kLong);
  const at::Tensor document = ends.cumsum(1) - ends;
  const at::Tensor index = at::arange(length, tokens.options()).expand_as(tokens);
  at::Tensor begins = at::zeros_like(tokens);
  begins.slice(1, 1) = at::where(ends.slice(1, 0, length - 1).to(at::kBool), index.slice(1, 1), 0);
  return {document, index - std::get<0>(begins.cummax(1))};
}

// [b, t, kv, d] -> [b, heads, t, d]: each key or value head serves heads / kv query heads.
at::Tensor SpreadHeads(const at::Tensor& x, int64_t heads) {
  const int64_t kv = x.size(2);
  at::Tensor by_head = x.transpose(1, 2);
  if (kv == heads) return by_head;
  return by_head.unsqueeze(2)
      .expand({x.size(0), kv, heads / kv, x.size(1), x.size(3)})
      .reshape({x.size(0), heads, x.size(1), x.size(3)});
}

at::Tensor Norm(const ModelSpec& spec, const at::Tensor& x, const at::Tensor& weight) {
  return at::rms_norm(x, {x.size(-1)}, weight, spec.rms_norm_eps);
}

// QK-norm: every query and key head over its own head_dim. `qk` is [b, t, heads + kv, d].
at::Tensor NormedHeads(const ModelSpec& spec, const BlockWeights& w, const at::Tensor& qk) {
  return at::cat({Norm(spec, qk.narrow(2, 0, spec.heads), w.q_norm),
                  Norm(spec, qk.narrow(2, spec.heads, spec.kv_heads), w.k_norm)},
                 2);
}

// Uses `kernels` only without QK-norm. With it, LibTorch norms and rotates the heads.
Heads HeadsOf(const ModelSpec& spec, const BlockWeights& w, const at::Tensor& qkv, const Positions& positions,
              PassKernels* kernels) {
  const int64_t heads = spec.heads, kv = spec.kv_heads;
  if (!spec.qk_norm) return TurnedHeads(qkv, heads, positions, kernels);
  return RotatedHeads(NormedHeads(spec, w, qkv.narrow(2, 0, heads + kv)), qkv, heads, positions);
}

at::Tensor Attention(const ModelSpec& spec, const BlockWeights& w, const at::Tensor& x, const Positions& positions,
                     PassKernels* kernels) {
  const int64_t heads = spec.heads, d = spec.head_dim, b = x.size(0), t = x.size(1);
  const at::Tensor qkv = at::linear(x, w.qkv).view({b, t, heads + 2 * int64_t{spec.kv_heads}, d});
  const Heads parts = HeadsOf(spec, w, qkv, positions, kernels);
  const bool causal = !positions.mask.defined();
  const std::optional<at::Tensor> mask = causal ? std::nullopt : std::optional<at::Tensor>(positions.mask);
  const at::Tensor mixed =
      at::scaled_dot_product_attention(parts.queries.transpose(1, 2), SpreadHeads(parts.keys, heads),
                                       SpreadHeads(parts.values, heads), mask, 0.0, causal);
  return at::linear(mixed.transpose(1, 2).reshape({b, t, heads * d}), w.output);
}

at::Tensor Mlp(const BlockWeights& w, const at::Tensor& x, PassKernels* kernels) {
  return at::linear(Gated(at::linear(x, w.gate_up), kernels), w.down);
}

}  // namespace

LlamaWeights MapWeights(const ModelSpec& spec, const ModelLayout& layout, const at::Tensor& arena, bool trainable) {
  Mapper map(layout, arena, trainable);
  LlamaWeights out;
  out.embedding = map.Rows("model.embed_tokens.", {"weight"}, out);
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    const std::string prefix = absl::StrCat("model.layers.", layer, ".");
    BlockWeights w;
    w.input_norm = map.Vector(prefix + "input_layernorm.weight", out);
    w.qkv = map.Rows(prefix + "self_attn.", {"q_proj.weight", "k_proj.weight", "v_proj.weight"}, out);
    if (spec.qk_norm) {
      w.q_norm = map.Vector(prefix + "self_attn.q_norm.weight", out);
      w.k_norm = map.Vector(prefix + "self_attn.k_norm.weight", out);
    }
    w.output = map.Rows(prefix + "self_attn.", {"o_proj.weight"}, out);
    w.mlp_norm = map.Vector(prefix + "post_attention_layernorm.weight", out);
    w.gate_up = map.Rows(prefix + "mlp.", {"gate_proj.weight", "up_proj.weight"}, out);
    w.down = map.Rows(prefix + "mlp.", {"down_proj.weight"}, out);
    out.blocks.push_back(std::move(w));
  }
  out.final_norm = map.Vector("model.norm.weight", out);
  out.head = spec.tie_embeddings ? out.embedding : map.Rows("lm_head.", {"weight"}, out);
  return out;
}

Positions MakePositions(const ModelSpec& spec, const ModelOptions& options, const at::Tensor& tokens,
                        at::ScalarType type) {
  Positions out;
  const auto fp32 = tokens.options().dtype(at::kFloat);
  const at::Tensor exponent = at::arange(0, Signed(spec.head_dim), 2, fp32) / static_cast<double>(spec.head_dim);
  const at::Tensor frequency = at::pow(at::Scalar(spec.rope_theta), exponent).reciprocal();
  at::Tensor position = at::arange(tokens.size(1), fp32).unsqueeze(0);
  if (options.separate_documents) {
    const auto [document, inside] = Documents(tokens, options.end_of_text);
    out.starts = (at::arange(tokens.size(1), inside.options()).unsqueeze(0) - inside).to(at::kInt).contiguous();
    position = inside.to(at::kFloat);
    out.mask = document.unsqueeze(2).eq(document.unsqueeze(1)).tril().unsqueeze(1);
  }
  const at::Tensor angle = (position.unsqueeze(-1) * frequency).unsqueeze(2);
  out.cos = angle.cos().to(type);
  out.sin = angle.sin().to(type);
  return out;
}

at::Tensor LlamaHidden(const ModelSpec& spec, const LlamaWeights& weights, const at::Tensor& tokens,
                       const Positions& positions, PassKernels* kernels) {
  at::Tensor x = at::embedding(weights.embedding, tokens);
  for (const BlockWeights& w : weights.blocks) {
    x = x + Attention(spec, w, Norm(spec, x, w.input_norm), positions, kernels);
    x = x + Mlp(w, Norm(spec, x, w.mlp_norm), kernels);
  }
  return Norm(spec, x, weights.final_norm);
}

}  // namespace atl
