// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/toy_job.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/random.h"

namespace atl {
namespace {

// Leases in the order of arrival; returns positions.
class ToySamples final : public SampleSource {
 public:
  ToySamples(uint32_t sequence_length, std::shared_ptr<std::map<uint64_t, int>> trained,
             std::shared_ptr<const std::string> missing)
      : sequence_length_(sequence_length), trained_(std::move(trained)), missing_(std::move(missing)) {}

  absl::Status AddLease(LeaseId lease, const SampleRange& range, uint64_t cursor) override {
    for (const Held& held : held_) {
      if (held.lease == lease) return absl::OkStatus();
    }
    held_.push_back({lease, range, cursor});
    return absl::OkStatus();
  }
  void RemoveLease(LeaseId lease) override {
    std::erase_if(held_, [lease](const Held& held) { return held.lease == lease; });
  }
  absl::StatusOr<SampleBatch> Next(uint32_t samples, Duration) override {
    if (!missing_->empty()) return absl::NotFoundError(*missing_);
    uint64_t available = 0;
    for (const Held& held : held_) available += held.range.end - held.cursor;
    if (available < samples) return absl::FailedPreconditionError("fewer samples are leased");
    SampleBatch batch;
    batch.samples = samples;
    for (Held& held : held_) {
      for (; samples > 0 && held.cursor < held.range.end; --samples, ++held.cursor) {
        ++(*trained_)[held.cursor];
        batch.tokens.resize(batch.tokens.size() + sequence_length_ + 1, static_cast<int32_t>(held.cursor % 1000));
      }
      batch.cursors.push_back({held.lease, held.cursor});
    }
    return batch;
  }

 private:
  struct Held {
    LeaseId lease;
    SampleRange range;
    uint64_t cursor = 0;
  };
  const uint32_t sequence_length_;
  std::shared_ptr<std::map<uint64_t, int>> trained_;
  std::shared_ptr<const std::string> missing_;
  std::vector<Held> held_;
};

class ToyModel final : public TrainingModel {
 public:
  ToyModel(uint64_t elements, std::function<void(Duration)> spend, Duration step, std::shared_ptr<int> pieces_scored,
           std::shared_ptr<int> failing_evaluations, double hostile, ToyJobFactory::Arithmetic arithmetic)
      : parameters_(elements),
        spend_(std::move(spend)),
        step_(step),
        pieces_scored_(std::move(pieces_scored)),
        failing_evaluations_(std::move(failing_evaluations)),
        hostile_(static_cast<float>(hostile)),
        arithmetic_(std::move(arithmetic)) {
    for (size_t i = 0; i < elements; ++i) base_.push_back(Base(i));
    // Samples pull slightly to either side, so that workers differ.
    for (size_t i = 0; i < elements + kPulls; ++i) pull_.push_back(0.01f * (static_cast<float>(i % kPulls) - 2));
  }
  std::span<float> parameters() override { return parameters_; }
  void* compute_stream() override { return nullptr; }
  absl::StatusOr<StepOutcome> Step(const SampleBatch& batch, double learning_rate) override {
    spend_(step_);
    const float rate = static_cast<float>(learning_rate);
    const int32_t token = batch.tokens.empty() ? 0 : batch.tokens[0];
    const float* const pull = pull_.data() + static_cast<size_t>(token) % kPulls;
    if (arithmetic_.step) arithmetic_.step(parameters_);
    const double loss = arithmetic_.step ? 1
                        : hostile_ > 0   ? Away(rate, pull)
                                         : Nearer(hostile_ < 0 ? rate * hostile_ : rate, pull);
    return StepOutcome{.applied = true,
                       .loss = loss / static_cast<double>(parameters_.size()),
                       .grad_norm = 1,
                       .tokens = batch.tokens.size() - batch.samples};
  }
  absl::Status BeginOptimizer(const JobStanding&) override { return absl::OkStatus(); }
  void KeepOptimizer(const JobStanding&, bool) override {}
  absl::StatusOr<EvaluationOutcome> Evaluate(std::span<float> parameters, const HeldOutPiece& piece) override {
    if (*failing_evaluations_ > 0) {
      --*failing_evaluations_;
      return absl::DataLossError("block 3 of toy.bin is damaged");
    }
    double loss = arithmetic_.evaluate ? arithmetic_.evaluate(parameters) : 0;
    for (size_t i = 0; !arithmetic_.evaluate && i < parameters.size(); ++i) {
      const double gap = parameters[i] - Base(i);
      loss += 0.5 * gap * gap;
    }
    return EvaluationOutcome{
        .samples = piece.samples, .nll = loss, .tokens = piece.samples, .text_bytes = piece.samples};
  }
  // An example is correct once the parameter of its number is near its target.
  absl::StatusOr<PieceScore> ScoreTask(std::span<float> parameters, const TaskPiece& piece) override {
    spend_(step_);
    ++*pieces_scored_;
    PieceScore score;
    for (uint64_t i = piece.first; i < piece.first + piece.examples; ++i) {
      const size_t at = i % parameters.size();
      score.correct += std::abs(parameters[at] - Base(at)) < 0.4f ? 1 : 0;
    }
    if (piece.task == 1) score.correct_per_byte = score.correct;
    return score;
  }

 private:
  static float Base(size_t i) { return static_cast<float>(i % 7) * 0.25f - 0.75f; }
  static constexpr size_t kPulls = 5;

  // One honest step; returns the loss before it.
  double Nearer(float rate, const float* pull) {
    double loss = 0;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const float gap = parameters_[i] - (base_[i] + pull[i]);
      loss += 0.5 * gap * gap;
      parameters_[i] -= rate * gap;
    }
    return loss;
  }
  double Away(float rate, const float* pull) {
    const double loss = Nearer(0, pull);
    for (float& value : parameters_) value += rate * hostile_;
    return loss;
  }

  std::vector<float> parameters_, base_, pull_;
  const std::function<void(Duration)> spend_;
  const Duration step_;
  const std::shared_ptr<int> pieces_scored_;
  const std::shared_ptr<int> failing_evaluations_;
  const float hostile_;
  const ToyJobFactory::Arithmetic arithmetic_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<JobParts>> ToyJobFactory::Prepare(const JobId&, const JobSpec& spec) {
  if (!missing_->empty()) return absl::NotFoundError(*missing_);
  auto parts = std::make_unique<JobParts>();
  parts->layout = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
  parts->device = OpenCpuDevice();
  parts->samples = std::make_unique<ToySamples>(spec.data.sequence_length, trained_, missing_);
  parts->model = std::make_unique<ToyModel>(parts->layout.elements, spend_, step_, pieces_scored_, failing_evaluations_,
                                            hostile_, arithmetic_);
  return parts;
}

}  // namespace atl
