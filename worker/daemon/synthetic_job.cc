// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/synthetic_job.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "common/base/random.h"
#include "common/plan/model_layout.h"
#include "common/vecmath/vecmath.h"
#include "worker/model/arena.h"

namespace atl {
namespace {

constexpr uint64_t kStepsForAll = 64;  // every parameter moves once in this many steps
constexpr size_t kMoves = 4096;        // parameters moved at a time

class SyntheticModel final : public TrainingModel {
 public:
  SyntheticModel(Duration step, uint64_t key, std::unique_ptr<Arena> arena, const Clock& clock)
      : step_(step), random_(key), arena_(std::move(arena)), clock_(clock) {}

  std::span<float> parameters() override { return arena_->host(); }
  void* compute_stream() override { return nullptr; }
  absl::Status BeginOptimizer(const JobStanding&) override { return absl::OkStatus(); }
  void KeepOptimizer(const JobStanding&, bool) override {}

  absl::StatusOr<StepOutcome> Step(const SampleBatch& batch, double learning_rate) override {
    const Instant end = clock_.Now() + step_;
    Move(static_cast<float>(learning_rate));
    if (const Duration left = end - clock_.Now(); left > Duration{}) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(left.ns));
    }
    return StepOutcome{.applied = true, .loss = 0, .grad_norm = 0, .tokens = batch.tokens.size() - batch.samples};
  }

  absl::StatusOr<EvaluationOutcome> Evaluate(std::span<float>, const HeldOutPiece&) override { return Refused(); }
  absl::StatusOr<PieceScore> ScoreTask(std::span<float>, const TaskPiece&) override { return Refused(); }

 private:
  static absl::Status Refused() {
    return absl::UnimplementedError("this worker runs synthetic steps and cannot evaluate; use another worker");
  }

  // Moves the next 1 / 64 of the parameters, as fast as memory allows, so that it does not delay the measured work.
  void Move(float by) {
    if (by != moved_by_) DrawMoves(by);
    const std::span<float> all = arena_->host();
    size_t left = (all.size() + kStepsForAll - 1) / kStepsForAll;
    while (left > 0) {
      const size_t count = std::min({left, kMoves, all.size() - next_});
      vecmath::Add(std::span(moves_).subspan(random_.Below(kMoves), count), all.subspan(next_, count));
      left -= count;
      next_ = next_ + count == all.size() ? 0 : next_ + count;
    }
  }
  void DrawMoves(float by) {
    moved_by_ = by;
    for (float& move : moves_) move = random_.Below(2) == 0 ? by : -by;
  }

  const Duration step_;
  Rng random_;
  const std::unique_ptr<Arena> arena_;
  const Clock& clock_;
  size_t next_ = 0;
  float moved_by_ = 0;
  std::array<float, 2 * kMoves> moves_{};  // moved_by_ with random signs; a move uses a part at a random place
};

}  // namespace

SyntheticJobFactory::SyntheticJobFactory(Duration step, JobDataOptions data, BulkClient& bulk, Files& files,
                                         const Clock& clock, Log& log)
    : step_(step),
      data_(std::move(data)),
      device_(OpenCpuDevice()),
      bulk_(bulk),
      files_(files),
      clock_(clock),
      log_(log) {}

absl::StatusOr<std::unique_ptr<JobParts>> SyntheticJobFactory::Prepare(const JobId& job, const JobSpec& spec) {
  auto parts = std::make_unique<JobParts>();
  parts->layout = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
  parts->device = device_;
  ATOLL_ASSIGN_OR_RETURN(auto data, JobData::Create(data_, job, spec.data, bulk_, files_, clock_, log_));
  ATOLL_ASSIGN_OR_RETURN(auto arena, Arena::Create(parts->layout.elements, TensorDevice{}));
  log_.Warn("steps are synthetic: this worker trains nothing", {{"job", job.value}, {"step", ToSeconds(step_)}});
  parts->model = std::make_unique<SyntheticModel>(step_, StreamKey(0, data_.worker.value), std::move(arena), clock_);
  parts->samples = std::move(data);
  return parts;
}

}  // namespace atl
