// SPDX-License-Identifier: Apache-2.0
#include "worker/train/trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/host_memory.h"
#include "worker/island/gradient_buckets.h"
#include "worker/model/pass_check.h"
#include "worker/train/gradient_print.h"
#include "worker/train/kernel_optimizer.h"
#include "worker/train/optimizer.h"
#include "worker/train/pass_plan.h"

namespace atl {
namespace {

constexpr uint32_t kEvaluationTokens = 4096;  // per pass
// Elements of a gradient exchanged at once: NCCL reaches its full rate at about 25 MB, PyTorch's DDP default.
constexpr uint64_t kCpuBucket = uint64_t{1} << 20, kGpuBucket = uint64_t{1} << 23;

ModelOptions OptionsOf(const JobSpec& spec, const TrainerOptions& options) {
  return {.separate_documents = spec.data.separate_documents,
          .end_of_text = options.end_of_text.has_value() ? static_cast<int32_t>(*options.end_of_text) : -1,
          .feed = options.feed,
          .kernels = options.pass_kernels,
          .as_on_gpu = options.as_on_gpu,
          .bf16_products = options.bf16_products};
}

TokenBatch Slice(const TokenBatch& batch, uint32_t first, uint32_t count) {
  return {.tokens = batch.tokens.subspan(size_t{first} * batch.length(), size_t{count} * batch.length()),
          .sequences = count};
}

// The reason why a trainer records no passes; OK if it can.
absl::Status MayRecord(const TrainerOptions& options) {
  if (options.recorder == nullptr) return absl::FailedPreconditionError("the device records no passes");
  if (options.island == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError("an island exchanges gradients during a pass, so its passes are not recorded");
}

absl::Status CheckBatch(const TokenBatch& batch) {
  if (batch.sequences > 0 && batch.tokens.size() % batch.sequences == 0 && batch.length() >= 2) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("a batch of ", batch.tokens.size(), " tokens in ", batch.sequences,
                                                 " sequences: each must be as long as the others, at least 2"));
}

}  // namespace

struct Trainer::State {
  State(const JobSpec& job, const TrainerOptions& options, const Clock& c)
      : spec(job), clock(c), recorder(options.recorder), plan(MayRecord(options)) {}
  Island* island = nullptr;
  const JobSpec spec;
  const Clock& clock;
  std::unique_ptr<Arena> parameters, gradients;
  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
  absl::Status kernels_refused, pass_kernels_refused;
  PassKernels* pass_kernels = nullptr;       // null unless used
  std::unique_ptr<GradientBuckets> buckets;  // with an island
  PassRecorder* const recorder;
  PassPlan plan;
  std::unique_ptr<PassGraph> recorded;  // of the model's fixed pass, which has this shape:
  PassShape shape;
  TrainingMemory memory;
  uint32_t micro = 1;
  bool cleared = false;  // the gradients are zero already
  bool agreed = false;   // the ranks of the island have agreed on the optimizer's kernels

  // All passes of one step with the present micro-batch; `targets` counts the whole step, on all ranks.
  absl::StatusOr<LossSum> Accumulate(const TokenBatch& batch, uint64_t targets);
  absl::Status Clear();
  // Requires zero gradients.
  absl::StatusOr<LossSum> LaunchPasses(const TokenBatch& batch, double scale);
  absl::StatusOr<LossSum> PlayPasses(const TokenBatch& batch, double scale);
  // Computes the step by replays, then by launches. Keeps the result of the launches; gives the plan the verdict.
  absl::StatusOr<LossSum> ProvePasses(const TokenBatch& batch, const PassShape& of);
  absl::StatusOr<GradientPrint> RecordAndPlay(const TokenBatch& batch);
  void DropRecording();
  // Halves the micro-batch until the passes fit; not if the job fixes it, or gradients were already exchanged.
  absl::StatusOr<LossSum> AccumulateWithinMemory(const TokenBatch& batch, uint64_t targets);
  // With an island: from now on, gradients are exchanged as the pass completes them.
  void BeginExchange();
  // Replaces this rank's gradients and loss by those of all ranks.
  absl::Status JoinIsland(uint64_t targets, LossSum& sum);
  absl::StatusOr<StepReport> Step(const TokenBatch& batch, uint64_t targets, double learning_rate);
  absl::Status ClipAndApply(double learning_rate, StepReport& report);
  absl::Status Apply(double learning_rate, double factor);
  // Acts in the first step only: if one rank of the island cannot use the kernels, no rank does.
  absl::Status AgreeOnKernels();
};

absl::Status Trainer::State::Clear() {
  if (!std::exchange(cleared, false)) ATOLL_RETURN_IF_ERROR(gradients->Zero());
  model->OnGradient({});
  return model->ForgetLoss();
}

absl::StatusOr<LossSum> Trainer::State::LaunchPasses(const TokenBatch& batch, double scale) {
  uint32_t left = batch.sequences;
  while (left > 0) {
    const TokenBatch part = Slice(batch, batch.sequences - left, std::min(micro, left));
    left -= part.sequences;
    if (left == 0) BeginExchange();
    ATOLL_RETURN_IF_ERROR(model->AddForwardBackward(part, scale));
  }
  return model->TakeLoss();
}

// Replays the recording for each micro-batch; a last one of another shape is launched.
absl::StatusOr<LossSum> Trainer::State::PlayPasses(const TokenBatch& batch, double scale) {
  for (uint32_t first = 0; first < batch.sequences; first += micro) {
    const TokenBatch part = Slice(batch, first, std::min(micro, batch.sequences - first));
    if (part.sequences != shape.sequences) {
      ATOLL_RETURN_IF_ERROR(model->AddForwardBackward(part, scale));
      continue;
    }
    ATOLL_RETURN_IF_ERROR(model->FillFixedPass(part));
    ATOLL_RETURN_IF_ERROR(recorded->Play());
  }
  return model->TakeLoss();
}

void Trainer::State::DropRecording() {
  recorded.reset();
  model->CloseFixedPass();
}

// Recording runs the pass once, so the gradients are cleared afterwards.
absl::StatusOr<GradientPrint> Trainer::State::RecordAndPlay(const TokenBatch& batch) {
  ATOLL_RETURN_IF_ERROR(model->OpenFixedPass(shape.sequences, shape.length, shape.scale));
  ATOLL_RETURN_IF_ERROR(model->FillFixedPass(Slice(batch, 0, shape.sequences)));
  ATOLL_ASSIGN_OR_RETURN(recorded, recorder->Record([this] { return model->RunFixedPass(); }));
  ATOLL_RETURN_IF_ERROR(Clear());
  ATOLL_ASSIGN_OR_RETURN(const LossSum sum, PlayPasses(batch, shape.scale));
  return PrintOf(*gradients, sum.nll);
}

absl::StatusOr<LossSum> Trainer::State::ProvePasses(const TokenBatch& batch, const PassShape& of) {
  DropRecording();
  shape = of;
  const absl::StatusOr<GradientPrint> played = RecordAndPlay(batch);
  if (!played.ok()) DropRecording();
  ATOLL_RETURN_IF_ERROR(Clear());
  absl::StatusOr<LossSum> launched = LaunchPasses(batch, of.scale);
  if (!launched.ok() && played.ok()) {  // possibly because the recording takes memory
    DropRecording();
    plan.Proved(launched.status());
    ATOLL_RETURN_IF_ERROR(Clear());
    return LaunchPasses(batch, of.scale);
  }
  absl::Status verdict = played.status();
  if (played.ok()) {
    const absl::StatusOr<GradientPrint> wanted = PrintOf(*gradients, launched->nll);
    verdict = wanted.ok() ? Agree(*played, *wanted) : wanted.status();
  }
  if (!verdict.ok()) DropRecording();
  plan.Proved(verdict);
  return launched;
}

absl::StatusOr<LossSum> Trainer::State::Accumulate(const TokenBatch& batch, uint64_t targets) {
  ATOLL_RETURN_IF_ERROR(Clear());
  if (batch.sequences == 0) BeginExchange();
  // The mean over ranks later divides by their number.
  const double scale = (island == nullptr ? 1.0 : island->world()) / static_cast<double>(targets);
  const PassShape now{std::min(micro, batch.sequences), batch.length(), scale};
  switch (plan.Next(now)) {
    case PassMode::kLaunch: break;
    case PassMode::kProve: return ProvePasses(batch, now);
    case PassMode::kPlay: {
      absl::StatusOr<LossSum> sum = PlayPasses(batch, scale);
      if (sum.ok()) return sum;
      plan.Failed(sum.status());
      ATOLL_RETURN_IF_ERROR(Clear());
    }
  }
  if (recorded != nullptr) DropRecording();
  return LaunchPasses(batch, scale);
}

void Trainer::State::BeginExchange() {
  if (buckets == nullptr) return;
  buckets->Begin();
  model->OnGradient([this](uint64_t offset) { buckets->Ready(offset); });
}

absl::StatusOr<LossSum> Trainer::State::AccumulateWithinMemory(const TokenBatch& batch, uint64_t targets) {
  for (;;) {  // at most log2(micro) + 1 rounds
    absl::StatusOr<LossSum> sum = Accumulate(batch, targets);
    if (sum.ok()) return sum;
    // Gradients already given to the island cannot be taken back.
    const bool again = buckets == nullptr || buckets->Halt();
    if (!absl::IsResourceExhausted(sum.status()) || micro == 1 || spec.batch.micro_batch != 0 || !again) return sum;
    micro = (micro + 1) / 2;
  }
}

absl::Status Trainer::State::JoinIsland(uint64_t targets, LossSum& sum) {
  if (island == nullptr) return absl::OkStatus();
  ATOLL_RETURN_IF_ERROR(buckets->Finish());
  std::array<double, 2> sums = {sum.nll, static_cast<double>(sum.targets)};
  ATOLL_RETURN_IF_ERROR(island->AllReduceSum(sums));
  sum = {sums[0], static_cast<uint64_t>(sums[1])};
  if (sum.targets == targets) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the shares of the island have ", sum.targets, " targets, not ", targets));
}

absl::Status Trainer::State::ClipAndApply(double learning_rate, StepReport& report) {
  ATOLL_ASSIGN_OR_RETURN(report.grad_norm, optimizer->GradientNorm());
  report.applied = std::isfinite(report.loss) && std::isfinite(report.grad_norm);
  if (!report.applied) return absl::OkStatus();
  const double limit = spec.inner.gradient_clip;
  const double factor = limit > 0 ? limit / (report.grad_norm + 1e-6) : 1.0;
  return Apply(learning_rate, std::min(factor, 1.0));
}

absl::Status Trainer::State::Apply(double learning_rate, double factor) {
  model->ParametersChanged();
  ATOLL_RETURN_IF_ERROR(optimizer->Apply(learning_rate, factor));
  cleared = optimizer->clears();
  if (optimizer->rounds()) model->RoundedWritten();
  return absl::OkStatus();
}

absl::Status Trainer::State::AgreeOnKernels() {
  if (island == nullptr || agreed) return absl::OkStatus();
  std::array<double, 1> willing = {optimizer->clears() ? 1.0 : 0.0};
  ATOLL_RETURN_IF_ERROR(island->AllReduceSum(willing));
  agreed = true;
  if (!optimizer->clears() || willing[0] == island->world()) return absl::OkStatus();
  optimizer->DropKernels();
  kernels_refused = absl::FailedPreconditionError(
      absl::StrCat(island->world() - willing[0], " of ", island->world(),
                   " ranks of the island cannot use their device's kernels, and all ranks must use the same"));
  return absl::OkStatus();
}

Trainer::Trainer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Trainer::~Trainer() = default;

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const JobSpec& spec, const ModelLayout& layout,
                                                         const TrainerOptions& options, const Clock& clock) {
  ATOLL_CHECK(options.available_bytes.has_value() || !options.device.gpu, "a GPU's free memory is given");
  auto state = std::make_unique<State>(spec, options, clock);
  uint64_t available = options.available_bytes.value_or(0);
  if (!options.available_bytes.has_value()) {
    ATOLL_ASSIGN_OR_RETURN(available, AvailableHostMemory());
  }
  const Passes passes = MayRecord(options).ok() ? Passes::kRecorded : Passes::kLaunched;
  ATOLL_ASSIGN_OR_RETURN(state->micro, ChooseMicroBatch(spec, layout, options.device, available, passes));
  state->island = options.island;
  state->memory = EstimateTrainingMemory(spec, layout, options.device, state->micro, passes);
  if (options.threads > 0) SetTensorThreads(options.threads);
  ATOLL_ASSIGN_OR_RETURN(state->parameters, Arena::Create(layout.elements, options.device));
  ATOLL_ASSIGN_OR_RETURN(state->gradients, Arena::Create(layout.elements, options.device));
  ModelOptions of_model = OptionsOf(spec, options);
  if (of_model.kernels != nullptr) {
    state->pass_kernels_refused = CheckPassKernels(*of_model.kernels, spec.model, options.device);
    if (!state->pass_kernels_refused.ok()) of_model.kernels = nullptr;
  }
  state->pass_kernels = of_model.kernels;
  ATOLL_ASSIGN_OR_RETURN(state->model,
                         Model::Create(spec.model, layout, of_model, *state->parameters, state->gradients.get()));
  if (state->island != nullptr) {
    std::vector<GradientRange> ranges;
    for (const ArenaRange& range : state->model->Gradients()) ranges.push_back({range.offset, range.elements});
    state->buckets = std::make_unique<GradientBuckets>(*state->island, state->gradients->memory(), ranges,
                                                       options.device.gpu ? kGpuBucket : kCpuBucket);
  }
  OptimizerKernels kernels{options.kernels, state->model->Rounded()};
  if (kernels.step != nullptr) state->kernels_refused = CheckKernels(*kernels.step, options.device);
  if (!state->kernels_refused.ok()) kernels.step = nullptr;
  ATOLL_ASSIGN_OR_RETURN(state->optimizer,
                         Optimizer::Create(spec.inner, layout, *state->parameters, *state->gradients, kernels));
  return std::unique_ptr<Trainer>(new Trainer(std::move(state)));
}

absl::StatusOr<StepReport> Trainer::Step(const TokenBatch& batch, double learning_rate) {
  ATOLL_RETURN_IF_ERROR(CheckBatch(batch));
  return state_->Step(batch, uint64_t{batch.sequences} * (batch.length() - 1), learning_rate);
}

absl::StatusOr<StepReport> Trainer::StepShare(const TokenBatch& share, uint64_t targets, double learning_rate) {
  if (share.sequences > 0) ATOLL_RETURN_IF_ERROR(CheckBatch(share));
  return state_->Step(share, targets, learning_rate);
}

absl::StatusOr<StepReport> Trainer::State::Step(const TokenBatch& batch, uint64_t targets, double learning_rate) {
  ATOLL_RETURN_IF_ERROR(AgreeOnKernels());
  if (!optimizer->rounds()) model->ParametersChanged();  // the caller may have merged since the last step
  StepReport report;
  const Instant begin = clock.Now();
  if (island != nullptr) island->OnlyWait(batch.sequences == 0);
  ATOLL_ASSIGN_OR_RETURN(LossSum sum, AccumulateWithinMemory(batch, targets));
  ATOLL_RETURN_IF_ERROR(JoinIsland(targets, sum));
  if (island != nullptr) island->OnlyWait(false);
  const Instant passed = clock.Now();
  report.loss = sum.nll / static_cast<double>(sum.targets);
  report.tokens = sum.targets;
  report.micro_batch = micro;
  report.passes = passed - begin;
  ATOLL_RETURN_IF_ERROR(ClipAndApply(learning_rate, report));
  report.update = clock.Now() - passed;
  return report;
}

Arena& Trainer::parameters() { return *state_->parameters; }
void Trainer::ParametersChanged(const ArenaRange& range) { state_->model->ParametersChanged(range); }
Arena& Trainer::gradients() { return *state_->gradients; }
Arena* Trainer::first_moments() { return state_->optimizer->first_moments(); }
Arena* Trainer::second_moments() { return state_->optimizer->second_moments(); }
const absl::Status& Trainer::kernels_refused() const { return state_->kernels_refused; }
PassKernels* Trainer::pass_kernels() const { return state_->pass_kernels; }
const absl::Status& Trainer::pass_kernels_refused() const { return state_->pass_kernels_refused; }
const absl::Status& Trainer::recording_refused() const {
  static const absl::Status kNotAsked;
  return state_->recorder == nullptr ? kNotAsked : state_->plan.refused();
}
bool Trainer::plays() const { return state_->recorded != nullptr; }
uint64_t Trainer::optimizer_steps() const { return state_->optimizer->steps(); }
void Trainer::set_optimizer_steps(uint64_t steps) { state_->optimizer->set_steps(steps); }
uint32_t Trainer::micro_batch() const { return state_->micro; }
const TrainingMemory& Trainer::memory() const { return state_->memory; }

absl::Status Trainer::ResetOptimizer() {
  for (Arena* moments : {first_moments(), second_moments()}) {
    if (moments != nullptr) ATOLL_RETURN_IF_ERROR(moments->Zero());
  }
  set_optimizer_steps(0);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Evaluator>> Evaluator::Create(const ModelSpec& spec, const ModelLayout& layout,
                                                             const ModelOptions& options, TensorDevice device,
                                                             std::span<float> parameters) {
  ATOLL_CHECK(parameters.size() == layout.elements, "the parameters fill the layout");
  auto out = std::unique_ptr<Evaluator>(new Evaluator);
  if (device.gpu) {
    ATOLL_ASSIGN_OR_RETURN(out->arena_, Arena::Create(layout.elements, device));
    ATOLL_RETURN_IF_ERROR(out->arena_->Write(0, parameters));
  } else {
    out->arena_ = Arena::Wrap(parameters);
  }
  ATOLL_ASSIGN_OR_RETURN(out->model_, Model::Create(spec, layout, options, *out->arena_, nullptr));
  return out;
}

absl::StatusOr<LossSum> Evaluator::Evaluate(const TokenBatch& batch) {
  ATOLL_RETURN_IF_ERROR(CheckBatch(batch));
  const uint32_t micro = std::max<uint32_t>(1, kEvaluationTokens / (batch.length() - 1));
  LossSum sum;
  for (uint32_t first = 0; first < batch.sequences; first += micro) {
    const TokenBatch pass = Slice(batch, first, std::min(micro, batch.sequences - first));
    ATOLL_ASSIGN_OR_RETURN(const LossSum part, model_->ForwardLoss(pass));
    sum.nll += part.nll;
    sum.targets += part.targets;
  }
  return sum;
}

}  // namespace atl
