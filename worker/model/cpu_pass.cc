// SPDX-License-Identifier: Apache-2.0
#include "worker/model/cpu_pass.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

#include "worker/model/attention.h"
#include "worker/model/parallel.h"
#include "worker/model/row_kernels.h"

namespace atl {
namespace {

constexpr int64_t kRowBlock = 32;  // rows per unit of work; sums over rows are made per unit

template <typename T>
T* Data(const at::Tensor& t) {
  return t.defined() ? static_cast<T*>(t.data_ptr()) : nullptr;
}

// work(first, count, block) for all rows, block by block.
template <typename Work>
void ForRowBlocks(int64_t rows, const Work& work) {
  const int64_t blocks = (rows + kRowBlock - 1) / kRowBlock;
  ParallelFor(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kRowBlock;
      work(first, std::min(kRowBlock, rows - first), block);
    }
  });
}

// Sums over rows, made per block and added in block order, so that they do not depend on the
// threads. fp32 [width].
class BlockSums {
 public:
  BlockSums(int64_t rows, int64_t width)
      : sums_(at::zeros({(rows + kRowBlock - 1) / kRowBlock, width}, at::TensorOptions().dtype(at::kFloat))) {}
  float* of(int64_t block) const { return Data<float>(sums_) + block * sums_.size(1); }
  void AddTo(const at::Tensor& place) const {
    for (int64_t block = 0; block < sums_.size(0); ++block) place.add_(sums_[block]);
  }

 private:
  const at::Tensor sums_;
};

// The data of one transformer block's forward pass for its backward pass; [tokens, ...].
struct BlockRecord {
  at::Tensor input, input_roots, input_normed;  // roots: fp32, one per row
  at::Tensor projected, head_roots;             // with QK-norm: queries, keys and values before the norm
  at::Tensor qkv;                               // normed and rotated
  at::Tensor mixed;                             // of all heads
  at::Tensor log_sums;                          // of attention, fp32 [sequences, heads, length]
  at::Tensor middle, middle_roots, middle_normed;
  at::Tensor gate_up, activated;
};

using Told = std::function<void(uint64_t)>;

// One pass; T is the type of activations. Without gradients it only goes forward.
template <typename T>
class Pass {
 public:
  Pass(const ModelSpec& spec, const LlamaWeights& weights, const LlamaWeights* gradients, const Told& told,
       const Positions& positions, int64_t sequences, int64_t length)
      : spec_(spec),
        w_(weights),
        g_(gradients),
        told_(told),
        positions_(positions),
        sequences_(sequences),
        length_(length),
        rows_(sequences * length),
        query_(int64_t{spec.heads} * spec.head_dim),
        key_(int64_t{spec.kv_heads} * spec.head_dim),
        options_(weights.embedding.options().requires_grad(false)) {}

  double Run(const at::Tensor& inputs, const at::Tensor& targets, double scale) {
    at::Tensor x = w_.embedding.index_select(0, inputs);
    at::Tensor added;  // still to be added to x
    std::vector<BlockRecord> records(w_.blocks.size());
    for (size_t i = 0; i < records.size(); ++i) {
      added = Forward(w_.blocks[i], x, added, records[i]);
      if (g_ == nullptr) records[i] = {};
    }
    const at::Tensor roots = Roots(rows_), normed = NormSum(x, added, w_.final_norm, roots);
    const auto [nll, dnormed] = Head(normed, targets, scale);
    if (g_ == nullptr) return nll;
    if (!w_.head.is_same(w_.embedding)) Through(g_->head);
    const at::Tensor dx = at::empty_like(x);
    NormBack(dnormed, x, w_.final_norm, roots, {}, dx, g_->final_norm);
    Through(g_->final_norm);
    for (size_t i = records.size(); i-- > 0;) {
      Backward(w_.blocks[i], g_->blocks[i], records[i], dx);
      records[i] = {};
    }
    AddEmbedding(inputs, dx);
    Through(g_->embedding);
    return nll;
  }

 private:
  // Reports that `gradient` is complete.
  void Through(const at::Tensor& gradient) const {
    if (!told_ || !gradient.defined()) return;
    const std::ptrdiff_t after_first = Data<float>(gradient) - Data<float>(g_->leaves.front());
    told_(g_->offsets.front() + static_cast<uint64_t>(after_first));
  }

  at::Tensor New(int64_t rows, int64_t width) const { return at::empty({rows, width}, options_); }
  at::Tensor Roots(int64_t rows) const { return at::empty({rows}, options_.dtype(at::kFloat)); }

  // Adds the gradient of a weight: dy [rows, out], x [rows, in].
  void AddProduct(const at::Tensor& place, const at::Tensor& dy, const at::Tensor& x) const {
    if constexpr (std::is_same_v<T, float>) {
      at::Tensor(place).addmm_(dy.t(), x);
    } else {
      place.add_(at::mm(dy.t(), x));
    }
  }

  // x := x + added in the memory of `added`, if it is defined; the old tensor of x stays. Returns x after RMSNorm.
  at::Tensor NormSum(at::Tensor& x, const at::Tensor& added, const at::Tensor& weight, const at::Tensor& roots) const {
    const int64_t width = x.size(1);
    const at::Tensor sum = added.defined() ? added : at::Tensor();  // its memory can be reused
    at::Tensor normed = at::empty_like(x);
    ForRowBlocks(x.size(0), [&](int64_t first, int64_t count, int64_t) {
      const int64_t at = first * width;
      rows::NormArguments<T> a;
      a.x = Data<T>(x) + at;
      a.add = added.defined() ? Data<T>(added) + at : nullptr;
      a.sum = added.defined() ? Data<T>(sum) + at : nullptr;
      a.weight = Data<T>(weight);
      a.normed = Data<T>(normed) + at;
      a.roots = Data<float>(roots) + first;
      a.eps = spec_.rms_norm_eps;
      rows::Norm({static_cast<size_t>(count), static_cast<size_t>(width)}, a);
    });
    if (added.defined()) x = sum;
    return normed;
  }

  // dx = gradient of NormSum's x, plus base if defined. Adds the weight's gradient to weight_gradient.
  void NormBack(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& roots,
                const at::Tensor& base, const at::Tensor& dx, const at::Tensor& weight_gradient) const {
    const int64_t width = x.size(1);
    const BlockSums sums(x.size(0), width);
    ForRowBlocks(x.size(0), [&](int64_t first, int64_t count, int64_t block) {
      const int64_t at = first * width;
      rows::NormGradientArguments<T> a;
      a.dy = Data<T>(dy) + at;
      a.x = Data<T>(x) + at;
      a.weight = Data<T>(weight);
      a.roots = Data<float>(roots) + first;
      a.base = base.defined() ? Data<T>(base) + at : nullptr;
      a.dx = Data<T>(dx) + at;
      a.weight_sum = sums.of(block);
      rows::NormGradient({static_cast<size_t>(count), static_cast<size_t>(width)}, a);
    });
    sums.AddTo(weight_gradient);
  }

  // Returns the MLP's output, which is still to be added to r.middle; `x` becomes r.middle.
  at::Tensor Forward(const BlockWeights& w, at::Tensor& x, const at::Tensor& added, BlockRecord& r) const {
    r.input_roots = Roots(rows_);
    r.input_normed = NormSum(x, added, w.input_norm, r.input_roots);
    r.input = x;
    Project(w, r);
    Attend(r);
    r.middle_roots = Roots(rows_);
    r.middle_normed = NormSum(x, at::mm(r.mixed, w.output.t()), w.mlp_norm, r.middle_roots);
    r.middle = x;
    r.gate_up = at::mm(r.middle_normed, w.gate_up.t());
    const int64_t inner = r.gate_up.size(1) / 2;
    r.activated = New(rows_, inner);
    ForRowBlocks(rows_, [&](int64_t first, int64_t count, int64_t) {
      rows::SwiGlu({static_cast<size_t>(count), static_cast<size_t>(inner)}, Data<T>(r.gate_up) + first * 2 * inner,
                   Data<T>(r.activated) + first * inner);
    });
    return at::mm(r.activated, w.down.t());
  }

  // Queries, keys and values, normed and rotated.
  void Project(const BlockWeights& w, BlockRecord& r) const {
    r.qkv = at::mm(r.input_normed, w.qkv.t());
    if (spec_.qk_norm) {
      r.projected = r.qkv.clone();
      r.head_roots = Roots(rows_ * (spec_.heads + spec_.kv_heads));
    }
    ForRowBlocks(rows_, [&](int64_t first, int64_t count, int64_t) {
      for (int64_t row = first; row < first + count; ++row) {
        if (spec_.qk_norm) {
          NormHeads(r, row, 0, spec_.heads, w.q_norm);
          NormHeads(r, row, spec_.heads, spec_.kv_heads, w.k_norm);
        }
        Rotate(r.qkv, row, false);
      }
    });
  }

  void NormHeads(const BlockRecord& r, int64_t row, int64_t head, int64_t heads, const at::Tensor& weight) const {
    const int64_t at = row * r.qkv.size(1) + head * spec_.head_dim;
    rows::NormArguments<T> a;
    a.x = Data<T>(r.projected) + at;
    a.weight = Data<T>(weight);
    a.normed = Data<T>(r.qkv) + at;
    a.roots = Data<float>(r.head_roots) + row * (spec_.heads + spec_.kv_heads) + head;
    a.eps = spec_.rms_norm_eps;
    rows::Norm({static_cast<size_t>(heads), spec_.head_dim}, a);
  }

  // Rotates the queries and keys of one token.
  void Rotate(const at::Tensor& qkv, int64_t row, bool backwards) const {
    const int64_t half = spec_.head_dim / 2;
    const int64_t angle = (positions_.cos.size(0) == 1 ? row % length_ : row) * half;
    rows::Rotate({size_t{spec_.heads} + spec_.kv_heads, spec_.head_dim}, Data<float>(positions_.cos) + angle,
                 Data<float>(positions_.sin) + angle, backwards, Data<T>(qkv) + row * qkv.size(1));
  }

  // The queries, keys and values of key head `kv` of a sequence in r.qkv. MixedAt: the place of their output.
  attention::HeadGroup<T> GroupAt(const BlockRecord& r, int64_t sequence, int64_t kv) const {
    attention::HeadGroup<T> g;
    g.stride = static_cast<size_t>(r.qkv.size(1));
    g.length = static_cast<size_t>(length_);
    g.head_dim = spec_.head_dim;
    g.query_heads = spec_.heads / spec_.kv_heads;
    const T* first = Data<T>(r.qkv) + sequence * length_ * r.qkv.size(1);
    g.queries = first + QueryOf(kv);
    g.keys = first + query_ + kv * spec_.head_dim;
    g.values = g.keys + key_;
    if (positions_.starts.defined()) g.starts = Data<int32_t>(positions_.starts) + sequence * length_;
    return g;
  }
  attention::Mixed<T> MixedAt(const BlockRecord& r, int64_t sequence, int64_t kv) const {
    return {Data<T>(r.mixed) + sequence * length_ * query_ + QueryOf(kv), static_cast<size_t>(query_),
            Data<float>(r.log_sums) + sequence * length_ * spec_.heads + QueryOf(kv) / spec_.head_dim * length_};
  }
  // The first element of the queries of key head `kv`.
  int64_t QueryOf(int64_t kv) const { return kv * (query_ / spec_.kv_heads); }

  template <typename Visit>
  void ForKeyHeads(const Visit& visit) const {
    ParallelFor(sequences_ * spec_.kv_heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) visit(i / spec_.kv_heads, i % spec_.kv_heads);
    });
  }

  void Attend(BlockRecord& r) const {
    r.mixed = New(rows_, query_);
    r.log_sums = Roots(rows_ * spec_.heads);
    ForKeyHeads(
        [&](int64_t sequence, int64_t kv) { attention::Forward(GroupAt(r, sequence, kv), MixedAt(r, sequence, kv)); });
  }

  // The gradient of r.qkv: of queries and keys after norm and rotation, as attention reads them.
  at::Tensor AttendBack(const BlockRecord& r, const at::Tensor& dmixed) const {
    at::Tensor dqkv = at::empty_like(r.qkv);
    ForKeyHeads([&](int64_t sequence, int64_t kv) {
      const attention::HeadGroup<T> group = GroupAt(r, sequence, kv);
      const attention::Mixed<T> mixed = MixedAt(r, sequence, kv);
      const auto in_gradient = [&](const T* at) { return Data<T>(dqkv) + (at - Data<T>(r.qkv)); };
      attention::Backward(group, mixed,
                          {Data<T>(dmixed) + (mixed.out - Data<T>(r.mixed)), in_gradient(group.queries),
                           in_gradient(group.keys), in_gradient(group.values)});
    });
    return dqkv;
  }

  // Turns dqkv from the gradient of r.qkv into that of the projected values. Adds those of q_norm and k_norm.
  void ProjectBack(const BlockWeights& w, const BlockWeights& g, const BlockRecord& r, const at::Tensor& dqkv) const {
    const BlockSums q_sums(rows_, spec_.head_dim), k_sums(rows_, spec_.head_dim);
    ForRowBlocks(rows_, [&](int64_t first, int64_t count, int64_t block) {
      for (int64_t row = first; row < first + count; ++row) {
        Rotate(dqkv, row, true);
        if (!spec_.qk_norm) continue;
        NormHeadsBack(r, dqkv, row, 0, spec_.heads, w.q_norm, q_sums.of(block));
        NormHeadsBack(r, dqkv, row, spec_.heads, spec_.kv_heads, w.k_norm, k_sums.of(block));
      }
    });
    if (spec_.qk_norm) {
      q_sums.AddTo(g.q_norm);
      k_sums.AddTo(g.k_norm);
    }
  }

  void NormHeadsBack(const BlockRecord& r, const at::Tensor& dqkv, int64_t row, int64_t head, int64_t heads,
                     const at::Tensor& weight, float* weight_sum) const {
    const int64_t at = row * dqkv.size(1) + head * spec_.head_dim;
    rows::NormGradientArguments<T> a;
    a.dy = Data<T>(dqkv) + at;
    a.x = Data<T>(r.projected) + at;
    a.weight = Data<T>(weight);
    a.roots = Data<float>(r.head_roots) + row * (spec_.heads + spec_.kv_heads) + head;
    a.dx = Data<T>(dqkv) + at;
    a.weight_sum = weight_sum;
    rows::NormGradient({static_cast<size_t>(heads), spec_.head_dim}, a);
  }

  // dx: the gradient of the block's output, replaced by that of its input. Adds to `g`, and overwrites r.gate_up.
  void Backward(const BlockWeights& w, const BlockWeights& g, const BlockRecord& r, const at::Tensor& dx) const {
    AddProduct(g.down, dx, r.activated);
    const at::Tensor dactivated = at::mm(dx, w.down);
    const int64_t inner = dactivated.size(1);
    ForRowBlocks(rows_, [&](int64_t first, int64_t count, int64_t) {
      rows::SwiGluGradient({static_cast<size_t>(count), static_cast<size_t>(inner)},
                           Data<T>(dactivated) + first * inner, Data<T>(r.gate_up) + first * 2 * inner);
    });
    AddProduct(g.gate_up, r.gate_up, r.middle_normed);
    NormBack(at::mm(r.gate_up, w.gate_up), r.middle, w.mlp_norm, r.middle_roots, dx, dx, g.mlp_norm);
    AddProduct(g.output, dx, r.mixed);
    const at::Tensor dqkv = AttendBack(r, at::mm(dx, w.output));
    ProjectBack(w, g, r, dqkv);
    AddProduct(g.qkv, dqkv, r.input_normed);
    NormBack(at::mm(dqkv, w.qkv), r.input, w.input_norm, r.input_roots, dx, dx, g.input_norm);
    for (const at::Tensor* done :
         {&g.down, &g.gate_up, &g.mlp_norm, &g.output, &g.q_norm, &g.k_norm, &g.qkv, &g.input_norm})
      Through(*done);
  }

  // Returns the loss and, if gradients are computed, that of `normed`; then also adds that of the head.
  std::pair<double, at::Tensor> Head(const at::Tensor& normed, const at::Tensor& targets, double scale) const {
    const at::Tensor out = at::empty_like(normed);
    double nll = 0;
    for (int64_t first = 0; first < rows_; first += kCpuScoreRows) {
      const int64_t count = std::min<int64_t>(kCpuScoreRows, rows_ - first);
      const at::Tensor part = normed.narrow(0, first, count), scores = at::mm(part, w_.head.t());
      nll += Judge(scores, Data<int64_t>(targets) + first, scale);
      if (g_ == nullptr) continue;
      at::Tensor place = out.narrow(0, first, count);
      at::mm_out(place, scores, w_.head);
      AddProduct(g_->head, scores, part);
    }
    return {nll, out};
  }

  // Returns the loss of some rows and replaces their scores by the gradient.
  double Judge(const at::Tensor& scores, const int64_t* targets, double scale) const {
    const int64_t vocab = scores.size(1);
    std::vector<double> nll(static_cast<size_t>((scores.size(0) + kRowBlock - 1) / kRowBlock));
    ForRowBlocks(scores.size(0), [&](int64_t first, int64_t count, int64_t block) {
      nll[static_cast<size_t>(block)] =
          rows::CrossEntropy({static_cast<size_t>(count), static_cast<size_t>(vocab)}, targets + first, scale,
                             spec_.z_loss, Data<T>(scores) + first * vocab);
    });
    double sum = 0;
    for (const double part : nll) sum += part;
    return sum;
  }

  // Adds the rows in order, each thread for some columns, so that the sums do not depend on the threads.
  void AddEmbedding(const at::Tensor& inputs, const at::Tensor& dx) const {
    const at::Tensor values = dx.to(at::kFloat);
    const int64_t width = values.size(1);
    const auto* ids = Data<int64_t>(inputs);
    ParallelFor(width, 64, [&](int64_t begin, int64_t end) {
      for (int64_t row = 0; row < rows_; ++row) {
        float* to = Data<float>(g_->embedding) + ids[row] * width;
        const float* from = Data<float>(values) + row * width;
        for (int64_t i = begin; i < end; ++i) to[i] += from[i];
      }
    });
  }

  const ModelSpec& spec_;
  const LlamaWeights& w_;
  const LlamaWeights* g_;
  const Told& told_;
  const Positions& positions_;
  const int64_t sequences_, length_, rows_, query_, key_;
  const at::TensorOptions options_;
};

double Run(const ModelSpec& spec, const LlamaWeights& weights, const LlamaWeights* gradients, const Told& told,
           const at::Tensor& tokens, const Positions& positions, double scale) {
  const at::NoGradGuard no_grad;
  const int64_t length = tokens.size(1) - 1;
  const at::Tensor inputs = tokens.narrow(1, 0, length).reshape(-1), targets = tokens.narrow(1, 1, length).reshape(-1);
  if (weights.embedding.scalar_type() == at::kFloat) {
    return Pass<float>(spec, weights, gradients, told, positions, tokens.size(0), length).Run(inputs, targets, scale);
  }
  return Pass<uint16_t>(spec, weights, gradients, told, positions, tokens.size(0), length).Run(inputs, targets, scale);
}

}  // namespace

double CpuForwardBackward(const ModelSpec& spec, const LlamaWeights& weights, const LlamaWeights& gradients,
                          const at::Tensor& tokens, const Positions& positions, double scale,
                          const std::function<void(uint64_t offset)>& told) {
  return Run(spec, weights, &gradients, told, tokens, positions, scale);
}

double CpuForward(const ModelSpec& spec, const LlamaWeights& weights, const at::Tensor& tokens,
                  const Positions& positions) {
  return Run(spec, weights, nullptr, {}, tokens, positions, 1.0);
}

}  // namespace atl
