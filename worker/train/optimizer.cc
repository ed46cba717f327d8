// SPDX-License-Identifier: Apache-2.0
#include "worker/train/optimizer.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "worker/model/tensors.h"
#include "worker/train/kernel_optimizer.h"

namespace atl {
namespace {

constexpr int64_t kNormBlock = 4096;

// A run of adjacent tensors that are treated the same.
struct Run {
  uint64_t offset = 0, elements = 0;
  bool decay = false;
};

std::vector<Run> RunsOf(const ModelLayout& layout) {
  std::vector<Run> runs;
  for (const TensorInfo& t : layout.tensors) {
    if (runs.empty() || runs.back().decay != t.decay) runs.push_back({t.offset, 0, t.decay});
    runs.back().elements += t.elements;
  }
  return runs;
}

// The tensors of all runs with this `decay`, as views into an arena.
std::vector<at::Tensor> Cut(const at::Tensor& arena, const std::vector<Run>& runs, bool decay) {
  std::vector<at::Tensor> out;
  for (const Run& r : runs) {
    if (r.decay == decay)
      out.push_back(arena.narrow(0, static_cast<int64_t>(r.offset), static_cast<int64_t>(r.elements)));
  }
  return out;
}

}  // namespace

struct Optimizer::State {
  // Element i of each list is the same run.
  struct Group {
    std::vector<at::Tensor> parameters, gradients, first, second;
  };
  at::Tensor parameters, gradients;  // whole arenas
  AdamwSpans spans;                  // over the same arenas, and the moments
  std::vector<Run> runs;
  StepKernels* kernels = nullptr;    // null: LibTorch's
  std::unique_ptr<KernelNorm> norm;  // with kernels
  Group decayed, kept;
};

Optimizer::Optimizer(const InnerOptimizerSpec& spec, std::unique_ptr<State> state)
    : spec_(spec), state_(std::move(state)) {}
Optimizer::~Optimizer() = default;

absl::StatusOr<std::unique_ptr<Optimizer>> Optimizer::Create(const InnerOptimizerSpec& spec, const ModelLayout& layout,
                                                             Arena& parameters, Arena& gradients,
                                                             const OptimizerKernels& kernels) {
  auto state = std::make_unique<State>();
  state->parameters = TensorOf(parameters);
  state->gradients = TensorOf(gradients);
  state->runs = RunsOf(layout);
  auto out = std::unique_ptr<Optimizer>(new Optimizer(spec, std::move(state)));
  if (spec.kind == InnerOptimizerSpec::Kind::kAdamW) {
    ATOLL_ASSIGN_OR_RETURN(out->first_, Arena::Create(layout.elements, parameters.device()));
    ATOLL_ASSIGN_OR_RETURN(out->second_, Arena::Create(layout.elements, parameters.device()));
  }
  State& s = *out->state_;
  if (out->first_ != nullptr && kernels.step != nullptr) {
    s.kernels = kernels.step;
    s.spans = {parameters.memory(), gradients.memory(), out->first_->memory(), out->second_->memory(), kernels.rounded};
    ATOLL_ASSIGN_OR_RETURN(s.norm, KernelNorm::Create(*kernels.step, gradients));
  }
  for (const bool decay : {true, false}) {
    State::Group& group = decay ? s.decayed : s.kept;
    group.parameters = Cut(s.parameters, s.runs, decay);
    group.gradients = Cut(s.gradients, s.runs, decay);
    if (out->first_ == nullptr) continue;
    group.first = Cut(TensorOf(*out->first_), s.runs, decay);
    group.second = Cut(TensorOf(*out->second_), s.runs, decay);
  }
  return out;
}

bool Optimizer::clears() const { return state_->kernels != nullptr; }
bool Optimizer::rounds() const { return clears() && !state_->spans.rounded.empty(); }

void Optimizer::DropKernels() {
  state_->kernels = nullptr;
  state_->norm.reset();
}

absl::StatusOr<double> Optimizer::GradientNorm() {
  return Guarded("measuring the gradient", [&]() -> absl::StatusOr<double> {
    if (state_->norm != nullptr) return state_->norm->Norm();
    const at::NoGradGuard no_grad;
    const at::Tensor& g = state_->gradients;
    const int64_t whole = g.numel() / kNormBlock * kNormBlock;
    double sum = 0;
    const auto add = [&sum](const at::Tensor& norms) {
      const at::Tensor host = norms.cpu().contiguous();
      for (int64_t i = 0; i < host.numel(); ++i) {
        const double norm = static_cast<double>(host.const_data_ptr<float>()[i]);
        sum += norm * norm;
      }
    };
    if (whole > 0) add(at::linalg_vector_norm(g.narrow(0, 0, whole).view({-1, kNormBlock}), 2, at::IntArrayRef{1}));
    if (whole < g.numel()) {
      add(at::linalg_vector_norm(g.narrow(0, whole, g.numel() - whole).unsqueeze(0), 2, at::IntArrayRef{1}));
    }
    return std::sqrt(sum);
  });
}

absl::Status Optimizer::Apply(double learning_rate, double factor) {
  return Guarded("updating the parameters", [&]() {
    const at::NoGradGuard no_grad;
    if (state_->kernels != nullptr) return ApplyByKernels(learning_rate, factor);
    return first_ != nullptr ? ApplyAdamW(learning_rate, factor) : ApplySgd(learning_rate, factor);
  });
}

absl::Status Optimizer::ApplyByKernels(double learning_rate, double factor) {
  ++steps_;
  const AdamwSpans& all = state_->spans;
  for (const Run& r : state_->runs) {
    const AdamwUpdate update{.learning_rate = learning_rate,
                             .decay = r.decay ? spec_.weight_decay : 0.0,
                             .beta1 = spec_.beta1,
                             .beta2 = spec_.beta2,
                             .epsilon = spec_.epsilon,
                             .steps = steps_,
                             .gradient_factor = factor,
                             .clear = true};
    const auto part = [&r](auto whole) { return whole.empty() ? whole : whole.subspan(r.offset, r.elements); };
    const AdamwSpans spans{part(all.parameters), part(all.gradients), part(all.first), part(all.second),
                           part(all.rounded)};
    ATOLL_RETURN_IF_ERROR(state_->kernels->Adamw(update, spans, nullptr));
  }
  return absl::OkStatus();
}

absl::Status Optimizer::ApplyAdamW(double learning_rate, double factor) {
  ++steps_;
  const at::Tensor step = at::full({}, static_cast<double>(steps_), state_->parameters.options());
  // LibTorch divides the gradients by `divisor` during the update.
  std::optional<at::Tensor> divisor;
  if (factor != 1.0) divisor = at::full({}, 1.0 / factor, state_->parameters.options());
  for (const bool decay : {true, false}) {
    State::Group& g = decay ? state_->decayed : state_->kept;
    if (g.parameters.empty()) continue;
    const std::vector<at::Tensor> counts(g.parameters.size(), step);
    at::_fused_adamw_(g.parameters, g.gradients, g.first, g.second, {}, counts, learning_rate, spec_.beta1, spec_.beta2,
                      decay ? spec_.weight_decay : 0.0, spec_.epsilon, /*amsgrad=*/false, /*maximize=*/false, divisor);
  }
  return absl::OkStatus();
}

absl::Status Optimizer::ApplySgd(double learning_rate, double factor) {
  ++steps_;
  if (factor != 1.0) state_->gradients.mul_(factor);
  if (spec_.weight_decay != 0) {
    for (at::Tensor& p : state_->decayed.parameters) p.mul_(1.0 - learning_rate * spec_.weight_decay);
  }
  state_->parameters.add_(state_->gradients, -learning_rate);
  return absl::OkStatus();
}

}  // namespace atl
