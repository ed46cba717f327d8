// SPDX-License-Identifier: Apache-2.0
// A job without LibTorch: the loss is 1/2 |x - target|^2 over the arena, a step is plain gradient
// descent. Samples are only counted.
#ifndef ATOLL_TESTS_UNIT_WORKER_SESSION_TOY_JOB_H_
#define ATOLL_TESTS_UNIT_WORKER_SESSION_TOY_JOB_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/toy_spec.h"
#include "worker/session/job.h"

namespace atl {

class CountedSamples final : public SampleSource {
 public:
  absl::Status AddLease(LeaseId lease, const SampleRange& range, uint64_t cursor) override {
    leases_.push_back({lease, range, cursor});
    return absl::OkStatus();
  }
  void RemoveLease(LeaseId lease) override {
    std::erase_if(leases_, [&](const Held& held) { return held.lease == lease; });
  }
  absl::StatusOr<SampleBatch> Next(uint32_t samples, Duration) override {
    SampleBatch batch;
    batch.samples = samples;
    for (Held& held : leases_) {
      const uint64_t used = std::min<uint64_t>(samples, held.range.end - held.cursor);
      held.cursor += used;
      samples -= static_cast<uint32_t>(used);
    }
    if (samples > 0) return absl::FailedPreconditionError("fewer samples are leased");
    return batch;
  }

 private:
  struct Held {
    LeaseId lease;
    SampleRange range;
    uint64_t cursor = 0;
  };
  std::vector<Held> leases_;
};

class ToyModel final : public TrainingModel {
 public:
  ToyModel(uint64_t elements, float target, const absl::Status& broken, std::vector<FragmentIndex>& changed,
           std::function<void()> during_step, std::function<double(const HeldOutPiece&)> held_out_nll,
           const absl::Status& unread, std::vector<uint64_t>& kept)
      : parameters_(elements),
        target_(target),
        broken_(broken),
        changed_(changed),
        during_step_(std::move(during_step)),
        held_out_nll_(std::move(held_out_nll)),
        unread_(unread),
        kept_(kept) {}
  std::span<float> parameters() override { return parameters_; }
  void* compute_stream() override { return nullptr; }
  void ParametersChanged(FragmentIndex fragment) override { changed_.push_back(fragment); }
  absl::Status BeginOptimizer(const JobStanding&) override { return absl::OkStatus(); }
  void KeepOptimizer(const JobStanding& at, bool leaving) override {
    if (leaving) kept_.push_back(at.clock_step);
  }
  absl::StatusOr<StepOutcome> Step(const SampleBatch& batch, double learning_rate) override {
    if (!broken_.ok()) return broken_;
    if (during_step_) during_step_();
    double loss = 0;
    for (float& x : parameters_) {
      const float gradient = x - target_;
      loss += 0.5 * gradient * gradient;
      x -= static_cast<float>(learning_rate) * gradient;
    }
    return StepOutcome{true, loss / static_cast<double>(parameters_.size()), 1, batch.samples * uint64_t{8}};
  }
  absl::StatusOr<EvaluationOutcome> Evaluate(std::span<float> parameters, const HeldOutPiece& piece) override {
    if (!unread_.ok()) return unread_;
    double nll = 0;
    for (const float x : parameters) nll += 0.5 * (x - target_) * (x - target_);
    if (held_out_nll_) nll = held_out_nll_(piece);
    return EvaluationOutcome{piece.samples, nll, piece.samples * 8, 0};
  }
  // The first half of a piece is correct.
  absl::StatusOr<PieceScore> ScoreTask(std::span<float>, const TaskPiece& piece) override {
    if (!unread_.ok()) return unread_;
    return PieceScore{piece.examples / 2, std::nullopt};
  }

 private:
  std::vector<float> parameters_;
  const float target_;
  const absl::Status& broken_;
  std::vector<FragmentIndex>& changed_;
  const std::function<void()> during_step_;
  const std::function<double(const HeldOutPiece&)> held_out_nll_;
  const absl::Status& unread_;
  std::vector<uint64_t>& kept_;
};

// Fails with `failure` if that is not OK, steps with `broken` and pieces of evaluations with
// `unread`; `lost` is its answer to the reason. Models call `during_step`, if set, in each step.
class ToyFactory final : public JobFactory {
 public:
  explicit ToyFactory(float target) : target_(target) {}
  absl::StatusOr<std::unique_ptr<JobParts>> Prepare(const JobId&, const JobSpec& spec) override {
    if (!failure.ok()) return failure;
    auto parts = std::make_unique<JobParts>();
    parts->layout = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
    parts->device = device ? device() : OpenCpuDevice();
    parts->samples = samples ? samples() : std::make_unique<CountedSamples>();
    parts->model = std::make_unique<ToyModel>(parts->layout.elements, target_, broken, changed, during_step,
                                              held_out_nll, unread, kept);
    return parts;
  }
  absl::Status WhyLost(const absl::Status&) override { return lost; }
  absl::Status failure, broken, unread, lost;
  std::vector<FragmentIndex> changed;  // as reported to the model, in order
  std::vector<uint64_t> kept;          // clock steps of moments kept when leaving
  std::function<void()> during_step;
  std::function<double(const HeldOutPiece&)> held_out_nll;  // if unset: the loss
  std::function<std::unique_ptr<SampleSource>()> samples;   // if unset: counted samples
  std::function<std::unique_ptr<Device>()> device;          // if unset: a CPU

 private:
  const float target_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_WORKER_SESSION_TOY_JOB_H_
