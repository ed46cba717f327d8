// SPDX-License-Identifier: Apache-2.0
// A Llama in plain loops and double precision, written from the papers and not from the model under
// test: RMSNorm (Zhang and Sennrich 2019), rotary embeddings with rotated halves (Su et al. 2021;
// Hugging Face's order), grouped-query attention (Ainslie et al. 2023), SwiGLU (Shazeer 2020).
// Slow, and meant to be read.
#ifndef ATOLL_TESTS_UNIT_WORKER_MODEL_REFERENCE_LLAMA_H_
#define ATOLL_TESTS_UNIT_WORKER_MODEL_REFERENCE_LLAMA_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/plan/model_layout.h"

namespace atl::test {

class ReferenceLlama {
 public:
  ReferenceLlama(const ModelSpec& spec, const ModelLayout& layout, std::span<const float> parameters)
      : spec_(spec), layout_(layout), parameters_(parameters.begin(), parameters.end()) {}

  // For finite differences.
  double& parameter(uint64_t index) { return parameters_[index]; }

  // [length][vocab]. `end_of_text` >= 0 separates documents.
  std::vector<std::vector<double>> Logits(const std::vector<int32_t>& tokens, int32_t end_of_text = -1) const {
    const size_t t = tokens.size(), h = spec_.hidden_size;
    SetDocuments(tokens, end_of_text);
    std::vector<std::vector<double>> x(t);
    const double* embedding = Tensor("model.embed_tokens.weight");
    for (size_t i = 0; i < t; ++i) {
      const double* row = embedding + static_cast<size_t>(tokens[i]) * h;
      x[i].assign(row, row + h);
    }
    for (uint32_t layer = 0; layer < spec_.layers; ++layer) Block(layer, x);
    const double* head = Tensor(spec_.tie_embeddings ? "model.embed_tokens.weight" : "lm_head.weight");
    std::vector<std::vector<double>> out(t);
    for (size_t i = 0; i < t; ++i) out[i] = Apply(head, spec_.vocab_size, Norm("model.norm.weight", x[i]));
    return out;
  }

  // Sum over targets of -log softmax, plus `z_loss` x the squared logarithm of its normaliser
  // (PaLM, Chowdhery et al. 2022, section 5).
  double Loss(const std::vector<int32_t>& tokens, int32_t end_of_text = -1, double z_loss = 0) const {
    const std::vector<int32_t> inputs(tokens.begin(), tokens.end() - 1);
    const auto logits = Logits(inputs, end_of_text);
    double sum = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      double total = 0;
      for (const double l : logits[i]) total += std::exp(l);
      sum += z_loss * std::log(total) * std::log(total);
      sum += std::log(total) - logits[i][static_cast<size_t>(tokens[i + 1])];
    }
    return sum;
  }

 private:
  using Vec = std::vector<double>;

  const double* Tensor(const std::string& name) const {
    for (const TensorInfo& t : layout_.tensors) {
      if (t.name == name) return parameters_.data() + t.offset;
    }
    return nullptr;
  }

  void SetDocuments(const std::vector<int32_t>& tokens, int32_t end_of_text) const {
    document_.assign(tokens.size(), 0);
    position_.assign(tokens.size(), 0);
    for (size_t i = 1; i < tokens.size(); ++i) {
      const bool begins = end_of_text >= 0 && tokens[i - 1] == end_of_text;
      document_[i] = document_[i - 1] + (begins ? 1 : 0);
      position_[i] = begins ? 0 : position_[i - 1] + 1;
    }
  }

  Vec Apply(const double* matrix, size_t rows, const Vec& x) const {
    Vec out(rows, 0.0);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < x.size(); ++c) out[r] += matrix[r * x.size() + c] * x[c];
    }
    return out;
  }

  Vec Norm(const std::string& name, const Vec& x) const {
    const double* weight = Tensor(name);
    double square = 0;
    for (const double v : x) square += v * v;
    const double scale = 1.0 / std::sqrt(square / static_cast<double>(x.size()) + spec_.rms_norm_eps);
    Vec out(x.size());
    for (size_t i = 0; i < x.size(); ++i) out[i] = x[i] * scale * weight[i];
    return out;
  }

  // QK-norm (Henry et al. 2020, as in Qwen3): each head by itself, before rotation.
  void NormHeads(const std::string& name, Vec& x) const {
    if (!spec_.qk_norm) return;
    const size_t d = spec_.head_dim;
    for (size_t from = 0; from < x.size(); from += d) {
      const Vec head =
          Norm(name, Vec(x.begin() + static_cast<ptrdiff_t>(from), x.begin() + static_cast<ptrdiff_t>(from + d)));
      std::copy(head.begin(), head.end(), x.begin() + static_cast<ptrdiff_t>(from));
    }
  }

  // Element j of a head pairs with j + d/2: the pair is a point in the plane, rotated by position x
  // theta^(-2j/d).
  void Rotate(double* head, int position) const {
    const uint32_t half = spec_.head_dim / 2;
    for (uint32_t j = 0; j < half; ++j) {
      const double angle = position * std::pow(spec_.rope_theta, -2.0 * j / spec_.head_dim);
      const double a = head[j], b = head[j + half];
      head[j] = a * std::cos(angle) - b * std::sin(angle);
      head[j + half] = b * std::cos(angle) + a * std::sin(angle);
    }
  }

  void Block(uint32_t layer, std::vector<Vec>& x) const {
    const std::string p = "model.layers." + std::to_string(layer) + ".";
    const size_t d = spec_.head_dim, t = x.size();
    std::vector<Vec> q(t), k(t), v(t);
    for (size_t i = 0; i < t; ++i) {
      const Vec n = Norm(p + "input_layernorm.weight", x[i]);
      q[i] = Apply(Tensor(p + "self_attn.q_proj.weight"), spec_.heads * d, n);
      k[i] = Apply(Tensor(p + "self_attn.k_proj.weight"), spec_.kv_heads * d, n);
      v[i] = Apply(Tensor(p + "self_attn.v_proj.weight"), spec_.kv_heads * d, n);
      NormHeads(p + "self_attn.q_norm.weight", q[i]);
      NormHeads(p + "self_attn.k_norm.weight", k[i]);
      for (uint32_t head = 0; head < spec_.heads; ++head) Rotate(q[i].data() + head * d, position_[i]);
      for (uint32_t head = 0; head < spec_.kv_heads; ++head) Rotate(k[i].data() + head * d, position_[i]);
    }
    for (size_t i = 0; i < t; ++i) {
      const Vec out = Apply(Tensor(p + "self_attn.o_proj.weight"), x[i].size(), Attend(i, q[i], k, v));
      for (size_t c = 0; c < out.size(); ++c) x[i][c] += out[c];
      Mlp(p, x[i]);
    }
  }

  Vec Attend(size_t i, const Vec& q, const std::vector<Vec>& k, const std::vector<Vec>& v) const {
    const size_t d = spec_.head_dim, group = spec_.heads / spec_.kv_heads;
    Vec out(spec_.heads * d, 0.0);
    for (size_t head = 0; head < spec_.heads; ++head) {
      const size_t source = head / group * d;
      Vec weight(i + 1, 0.0);
      double total = 0;
      for (size_t j = 0; j <= i; ++j) {
        if (document_[j] != document_[i]) continue;
        double score = 0;
        for (size_t c = 0; c < d; ++c) score += q[head * d + c] * k[j][source + c];
        weight[j] = std::exp(score / std::sqrt(static_cast<double>(d)));
        total += weight[j];
      }
      for (size_t j = 0; j <= i; ++j) {
        for (size_t c = 0; c < d; ++c) out[head * d + c] += weight[j] / total * v[j][source + c];
      }
    }
    return out;
  }

  void Mlp(const std::string& p, Vec& x) const {
    const Vec n = Norm(p + "post_attention_layernorm.weight", x);
    Vec gate = Apply(Tensor(p + "mlp.gate_proj.weight"), spec_.intermediate_size, n);
    const Vec up = Apply(Tensor(p + "mlp.up_proj.weight"), spec_.intermediate_size, n);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1.0 + std::exp(-gate[i])) * up[i];
    const Vec out = Apply(Tensor(p + "mlp.down_proj.weight"), x.size(), gate);
    for (size_t c = 0; c < out.size(); ++c) x[c] += out[c];
  }

  const ModelSpec& spec_;
  const ModelLayout& layout_;
  std::vector<double> parameters_;
  mutable std::vector<int> document_, position_;
};

}  // namespace atl::test

#endif  // ATOLL_TESTS_UNIT_WORKER_MODEL_REFERENCE_LLAMA_H_
