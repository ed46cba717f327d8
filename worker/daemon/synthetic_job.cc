#include "worker/daemon/synthetic_job.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "common/base/random.h"
#include "common/plan/model_layout.h"
#include "worker/model/arena.h"

namespace atl {
namespace {

constexpr uint64_t kStepsForAll = 64;  // after so many every parameter has moved

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
    return absl::UnimplementedError("this worker takes synthetic steps and evaluates nothing; evaluate with another");
  }

  void Move(float by) {
    const std::span<float> all = arena_->host();
    const size_t count = (all.size() + kStepsForAll - 1) / kStepsForAll;
    uint64_t bits = 0;
    for (size_t i = 0; i < count; ++i) {
      if (i % 64 == 0) bits = random_();
      all[next_] += (bits & 1) != 0 ? by : -by;
      bits >>= 1;
      if (++next_ == all.size()) next_ = 0;
    }
  }

  const Duration step_;
  Rng random_;
  const std::unique_ptr<Arena> arena_;
  const Clock& clock_;
  size_t next_ = 0;
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
