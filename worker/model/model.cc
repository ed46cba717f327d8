// SPDX-License-Identifier: Apache-2.0
#include "worker/model/model.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "worker/model/cpu_pass.h"
#include "worker/model/head_loss.h"
#include "worker/model/llama.h"
#include "worker/model/parallel.h"
#include "worker/model/row_kernels.h"
#include "worker/model/tensors.h"

namespace atl {
namespace {

constexpr int64_t kRefreshGrain = 1 << 16;  // minimum of elements per thread
constexpr size_t kMostStale = 256;          // ranges refreshed one by one; with more, the whole copy is refreshed

// Adds a finished gradient to its place in the gradient arena and frees it. So no gradient outlives
// its use, and bf16 gradients of several passes are summed in fp32.
class AddToArena final : public torch::autograd::PostAccumulateGradHook {
 public:
  AddToArena(at::Tensor place, uint64_t offset, const std::function<void(uint64_t)>& told)
      : place_(std::move(place)), offset_(offset), told_(told) {}
  void operator()(const at::Tensor& leaf) override {
    const at::NoGradGuard no_grad;
    const at::Tensor gradient = std::exchange(leaf.mutable_grad(), at::Tensor());  // also if the sum fails
    place_.add_(gradient);
    if (told_) told_(offset_);
  }

 private:
  at::Tensor place_;
  const uint64_t offset_;
  const std::function<void(uint64_t)>& told_;  // the model's callback
};

}  // namespace

struct Model::State {
  ModelSpec spec;
  ModelOptions options;
  at::Tensor master;              // fp32 arena
  at::Tensor working;             // copy rounded to bf16, held as bf16 or fp32; undefined in fp32
  std::vector<ArenaRange> stale;  // outdated ranges of the copy
  bool trainable = false;
  LlamaWeights weights;
  LlamaWeights gradients;  // the same views into the gradient arena; only for a trained model
  std::function<void(uint64_t)> told;
  LossSum loss;            // of all passes since the last TakeLoss; nll: those on the host
  at::Tensor device_loss;  // addition to loss.nll from passes on the device, double; undefined: none
  struct FixedPass {
    at::Tensor fed, tokens;  // int32 as given; int64
    at::Tensor loss;         // double: sum over the passes run
    double scale = 0;
  };
  std::optional<FixedPass> fixed;

  at::ScalarType type() const { return working.defined() ? working.scalar_type() : at::kFloat; }
  bool by_hand() const { return master.is_cpu() && !options.as_on_gpu; }
  absl::Status Check(const TokenBatch& batch, uint32_t least_length) const;
  // int64 on the device.
  absl::StatusOr<at::Tensor> Tokens(const TokenBatch& batch) const;
  ArenaRange whole() const { return {0, static_cast<uint64_t>(master.numel())}; }
  void Refresh();
  void RefreshRange(const ArenaRange& range);
  at::Tensor Hidden(const at::Tensor& tokens) {
    return LlamaHidden(spec, weights, tokens, MakePositions(spec, options, tokens, type()), options.kernels);
  }
  // The head's inputs: the hidden states [targets, hidden] of the batch, part of autograd's graph or not.
  HeadInputs AtHead(const at::Tensor& tokens);
  // Adds the gradients to the arena, and returns the loss, on the device.
  at::Tensor AutogradPass(const at::Tensor& tokens, double scale);
  // Returns the loss, and with `scale` adds its gradients to the arena.
  double CpuPass(const at::Tensor& tokens, std::optional<double> scale);
};

bool CpuMultipliesBf16() { return __builtin_cpu_supports("avx512bf16") != 0; }

absl::Status Model::State::Check(const TokenBatch& batch, uint32_t least_length) const {
  if (batch.sequences == 0 || batch.tokens.size() % batch.sequences != 0 || batch.length() < least_length) {
    return absl::InvalidArgumentError(absl::StrCat("a batch of ", batch.tokens.size(), " tokens is not ",
                                                   batch.sequences, " sequences of at least ", least_length));
  }
  for (const int32_t token : batch.tokens) {
    if (token < 0 || static_cast<uint32_t>(token) >= spec.vocab_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", token, " is outside the vocabulary of ", spec.vocab_size,
                       ": the corpus was prepared with another tokenizer than the model's"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<at::Tensor> Model::State::Tokens(const TokenBatch& batch) const {
  if (options.feed != nullptr) {
    const at::Tensor fed = at::empty({batch.sequences, batch.length()}, master.options().dtype(at::kInt));
    ATOLL_RETURN_IF_ERROR(options.feed->Put(std::as_bytes(batch.tokens), fed.data_ptr(), nullptr));
    return fed.to(at::kLong);
  }
  // from_blob takes no const memory; the tensor is only read.
  const at::Tensor ids = at::from_blob(const_cast<int32_t*>(batch.tokens.data()), {batch.sequences, batch.length()},
                                       at::TensorOptions().dtype(at::kInt));
  return ids.to(master.device(), at::kLong);
}

void Model::State::RefreshRange(const ArenaRange& range) {
  const auto offset = static_cast<int64_t>(range.offset), elements = static_cast<int64_t>(range.elements);
  if (working.scalar_type() == at::kFloat) {
    const auto* from = master.const_data_ptr<float>() + offset;
    auto* to = working.data_ptr<float>() + offset;
    ParallelFor(elements, kRefreshGrain, [&](int64_t begin, int64_t end) {
      rows::RoundToBf16(static_cast<size_t>(end - begin), from + begin, to + begin);
    });
  } else {
    working.narrow(0, offset, elements).copy_(master.narrow(0, offset, elements));
  }
}

void Model::State::Refresh() {
  for (const ArenaRange& range : stale) RefreshRange(range);
  stale.clear();
}

HeadInputs Model::State::AtHead(const at::Tensor& tokens) {
  const int64_t length = tokens.size(1) - 1;
  return {Hidden(tokens.narrow(1, 0, length)).flatten(0, 1), weights.head, tokens.narrow(1, 1, length).flatten(),
          options.score_rows > 0 ? options.score_rows : ScoreRows(spec.vocab_size, options.kernels != nullptr),
          options.kernels};
}

at::Tensor Model::State::AutogradPass(const at::Tensor& tokens, double scale) {
  const at::AutoGradMode grad(true);
  const HeadInputs in = AtHead(tokens);
  const HeadOutcome head = HeadLossAndGradients(in, scale, spec.z_loss, gradients.head);
  if (told && !spec.tie_embeddings) told(weights.offsets.back());
  torch::autograd::backward({in.hidden}, {head.hidden_gradient});
  return head.loss;
}

double Model::State::CpuPass(const at::Tensor& tokens, std::optional<double> scale) {
  const Positions positions = MakePositions(spec, options, tokens.narrow(1, 0, tokens.size(1) - 1), at::kFloat);
  if (!scale.has_value()) return CpuForward(spec, weights, tokens, positions);
  return CpuForwardBackward(spec, weights, gradients, tokens, positions, *scale, told);
}

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::~Model() = default;

absl::StatusOr<std::unique_ptr<Model>> Model::Create(const ModelSpec& spec, const ModelLayout& layout,
                                                     const ModelOptions& options, Arena& parameters, Arena* gradients) {
  if (options.separate_documents && options.end_of_text < 0) {
    return absl::InvalidArgumentError(
        "data.separate_documents needs a tokenizer with an end-of-text token, but this corpus has none");
  }
  return Guarded("creating the model", [&]() -> absl::StatusOr<std::unique_ptr<Model>> {
    auto state = std::make_unique<State>();
    state->spec = spec;
    state->options = options;
    state->master = TensorOf(parameters);
    state->trainable = gradients != nullptr;
    if (spec.precision == Precision::kBf16) {
      const bool products = !state->master.is_cpu() || options.bf16_products || CpuMultipliesBf16();
      state->working = at::empty_like(state->master, products ? at::kBFloat16 : at::kFloat);
    }
    if (state->working.defined()) state->stale = {state->whole()};
    LlamaWeights& w = state->weights;
    w = MapWeights(spec, layout, state->working.defined() ? state->working : state->master, state->trainable);
    if (state->trainable) state->gradients = MapWeights(spec, layout, TensorOf(*gradients), false);
    for (size_t i = 0; state->trainable && i < w.leaves.size(); ++i) {
      at::Tensor place = TensorOf(*gradients).narrow(0, static_cast<int64_t>(w.offsets[i]), w.leaves[i].numel());
      torch::autograd::impl::set_post_acc_grad_hooks(
          w.leaves[i], std::make_unique<AddToArena>(place.view(w.leaves[i].sizes()), w.offsets[i], state->told));
    }
    return std::unique_ptr<Model>(new Model(std::move(state)));
  });
}

void Model::ParametersChanged() { ParametersChanged(state_->whole()); }

void Model::ParametersChanged(const ArenaRange& range) {
  const ArenaRange whole = state_->whole();
  ATOLL_CHECK(range.offset <= whole.elements && range.elements <= whole.elements - range.offset,
              "the range lies in the arena");
  if (!state_->working.defined()) return;
  std::vector<ArenaRange>& stale = state_->stale;
  if (stale.size() == 1 && stale[0].elements == whole.elements) return;
  const bool all = range.elements == whole.elements || stale.size() == kMostStale;
  if (all) stale.clear();
  stale.push_back(all ? whole : range);
}

std::span<uint16_t> Model::Rounded() {
  const at::Tensor& working = state_->working;
  if (!working.defined() || working.scalar_type() != at::kBFloat16) return {};
  return {static_cast<uint16_t*>(working.data_ptr()), static_cast<size_t>(working.numel())};
}

void Model::RoundedWritten() { state_->stale.clear(); }

absl::StatusOr<LossSum> Model::ForwardBackward(const TokenBatch& batch, double scale) {
  ATOLL_RETURN_IF_ERROR(ForgetLoss());
  ATOLL_RETURN_IF_ERROR(AddForwardBackward(batch, scale));
  return TakeLoss();
}

absl::Status Model::AddForwardBackward(const TokenBatch& batch, double scale) {
  ATOLL_CHECK(state_->trainable, "only a model with gradients is trained");
  ATOLL_RETURN_IF_ERROR(state_->Check(batch, 2));
  return Guarded("training", [&]() -> absl::Status {
    State& s = *state_;
    s.Refresh();
    ATOLL_ASSIGN_OR_RETURN(const at::Tensor tokens, s.Tokens(batch));
    if (s.by_hand()) {
      s.loss.nll += s.CpuPass(tokens, scale);
    } else {
      const at::Tensor loss = s.AutogradPass(tokens, scale);
      s.device_loss = s.device_loss.defined() ? s.device_loss.add(loss) : loss;
    }
    s.loss.targets += uint64_t{batch.sequences} * (batch.length() - 1);
    return absl::OkStatus();
  });
}

absl::StatusOr<LossSum> Model::TakeLoss() {
  return Guarded("training", [&]() -> absl::StatusOr<LossSum> {
    LossSum sum = std::exchange(state_->loss, LossSum{});
    const at::Tensor rest = std::exchange(state_->device_loss, at::Tensor());
    if (rest.defined()) sum.nll += rest.item<double>();
    if (state_->fixed) {
      sum.nll += state_->fixed->loss.item<double>();
      state_->fixed->loss.zero_();
    }
    return sum;
  });
}

absl::Status Model::ForgetLoss() {
  return Guarded("training", [&]() -> absl::Status {
    state_->loss = {};
    state_->device_loss = at::Tensor();
    if (state_->fixed) state_->fixed->loss.zero_();
    return absl::OkStatus();
  });
}

absl::Status Model::OpenFixedPass(uint32_t sequences, uint32_t length, double scale) {
  ATOLL_CHECK(state_->trainable, "only a model with gradients is trained");
  if (state_->by_hand()) return absl::UnimplementedError("a pass that is not autograd's is not recorded");
  return Guarded("allocating memory for a pass", [&]() -> absl::Status {
    const at::TensorOptions place = state_->master.options();
    state_->fixed = State::FixedPass{at::zeros({sequences, length}, place.dtype(at::kInt)),
                                     at::zeros({sequences, length}, place.dtype(at::kLong)),
                                     at::zeros({}, place.dtype(at::kDouble)), scale};
    return absl::OkStatus();
  });
}

void Model::CloseFixedPass() { state_->fixed.reset(); }

absl::Status Model::FillFixedPass(const TokenBatch& batch) {
  ATOLL_CHECK(state_->fixed.has_value(), "a pass is filled that is open");
  State::FixedPass& fixed = *state_->fixed;
  ATOLL_CHECK(fixed.tokens.size(0) == batch.sequences && fixed.tokens.size(1) == batch.length(),
              "a batch of the shape of the fixed pass");
  ATOLL_RETURN_IF_ERROR(state_->Check(batch, 2));
  return Guarded("training", [&]() -> absl::Status {
    state_->Refresh();
    if (state_->options.feed != nullptr) {
      ATOLL_RETURN_IF_ERROR(state_->options.feed->Put(std::as_bytes(batch.tokens), fixed.fed.data_ptr(), nullptr));
      fixed.tokens.copy_(fixed.fed);
    } else {
      ATOLL_ASSIGN_OR_RETURN(const at::Tensor tokens, state_->Tokens(batch));
      fixed.tokens.copy_(tokens);
    }
    state_->loss.targets += uint64_t{batch.sequences} * (batch.length() - 1);
    return absl::OkStatus();
  });
}

absl::Status Model::RunFixedPass() {
  ATOLL_CHECK(state_->fixed.has_value(), "a pass is run that is open");
  return Guarded("training", [&]() -> absl::Status {
    const at::Tensor loss = state_->AutogradPass(state_->fixed->tokens, state_->fixed->scale);
    state_->fixed->loss.add_(loss);
    return absl::OkStatus();
  });
}

void Model::OnGradient(std::function<void(uint64_t offset)> told) { state_->told = std::move(told); }

std::vector<ArenaRange> Model::Gradients() const {
  const LlamaWeights& w = state_->weights;
  std::vector<ArenaRange> ranges;
  for (size_t i = w.leaves.size(); i-- > 0;)
    ranges.push_back({w.offsets[i], static_cast<uint64_t>(w.leaves[i].numel())});
  return ranges;
}

absl::StatusOr<LossSum> Model::ForwardLoss(const TokenBatch& batch) {
  ATOLL_RETURN_IF_ERROR(state_->Check(batch, 2));
  return Guarded("evaluating", [&]() -> absl::StatusOr<LossSum> {
    state_->Refresh();
    const uint64_t targets = uint64_t{batch.sequences} * (batch.length() - 1);
    ATOLL_ASSIGN_OR_RETURN(const at::Tensor tokens, state_->Tokens(batch));
    if (state_->by_hand()) return LossSum{.nll = state_->CpuPass(tokens, std::nullopt), .targets = targets};
    const at::NoGradGuard no_grad;
    return LossSum{.nll = HeadLoss(state_->AtHead(tokens)).item<double>(), .targets = targets};
  });
}

absl::Status Model::Logits(const TokenBatch& batch, std::span<float> out) {
  ATOLL_RETURN_IF_ERROR(state_->Check(batch, 1));
  ATOLL_CHECK(out.size() == batch.tokens.size() * state_->spec.vocab_size, "the output has a place for every score");
  return Guarded("computing logits", [&]() -> absl::Status {
    state_->Refresh();
    const at::NoGradGuard no_grad;
    ATOLL_ASSIGN_OR_RETURN(const at::Tensor tokens, state_->Tokens(batch));
    const at::Tensor logits = at::linear(state_->Hidden(tokens), state_->weights.head);
    at::from_blob(out.data(), logits.sizes(), at::TensorOptions().dtype(at::kFloat)).copy_(logits);
    return absl::OkStatus();
  });
}

absl::Status Model::LastLogits(const TokenBatch& batch, std::span<float> out) {
  ATOLL_RETURN_IF_ERROR(state_->Check(batch, 1));
  ATOLL_CHECK(out.size() == size_t{batch.sequences} * state_->spec.vocab_size,
              "the output has a place for every score");
  return Guarded("computing logits", [&]() -> absl::Status {
    state_->Refresh();
    const at::NoGradGuard no_grad;
    ATOLL_ASSIGN_OR_RETURN(const at::Tensor tokens, state_->Tokens(batch));
    const at::Tensor last = state_->Hidden(tokens).select(1, batch.length() - 1);
    const at::Tensor logits = at::linear(last, state_->weights.head);
    at::from_blob(out.data(), logits.sizes(), at::TensorOptions().dtype(at::kFloat)).copy_(logits);
    return absl::OkStatus();
  });
}

}  // namespace atl
