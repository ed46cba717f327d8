// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/torch_job.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/host_memory.h"
#include "common/plan/model_layout.h"
#include "worker/daemon/island_shares.h"
#include "worker/daemon/job_data.h"
#include "worker/daemon/job_tasks.h"
#include "worker/daemon/optimizer_shelf.h"
#include "worker/daemon/preparation.h"
#include "worker/train/memory.h"
#include "worker/train/trainer.h"

namespace atl {
namespace {

class TorchModel final : public TrainingModel {
 public:
  TorchModel(const JobSpec& spec, const ModelLayout& layout, ModelOptions model_options, TensorDevice device,
             std::unique_ptr<HostFeed> feed, std::unique_ptr<Trainer> trainer, std::unique_ptr<IslandShares> shares,
             OptimizerShelf shelf, JobData& data, JobTasks tasks, Log& log)
      : spec_(spec),
        layout_(layout),
        model_options_(model_options),
        device_(device),
        feed_(std::move(feed)),
        trainer_(std::move(trainer)),
        shares_(std::move(shares)),
        shelf_(std::move(shelf)),
        data_(data),
        tasks_(std::move(tasks)),
        log_(log) {
    TellChoices();
  }

  std::span<float> parameters() override { return trainer_->parameters().memory(); }
  void* compute_stream() override { return trainer_->compute_stream(); }
  void ParametersChanged(FragmentIndex fragment) override {
    const FragmentInfo& changed = layout_.fragments[fragment.value];
    trainer_->ParametersChanged({changed.offset, changed.elements});
    if (shares_ != nullptr) shares_->ParametersChanged(fragment);
  }
  absl::Status BeginOptimizer(const JobStanding& at) override {
    if (shares_ != nullptr) shares_->OptimizerChanged();
    return shelf_.Begin(at, *trainer_);
  }
  void KeepOptimizer(const JobStanding& at, bool leaving) override { shelf_.Keep(at, leaving, *trainer_); }

  absl::StatusOr<StepOutcome> Step(const SampleBatch& batch, double learning_rate) override {
    pass_.reset();
    tasks_.Rest();
    const absl::StatusOr<StepReport> report = shares_ != nullptr
                                                  ? shares_->Step(batch, learning_rate, *trainer_)
                                                  : trainer_->Step({batch.tokens, batch.samples}, learning_rate);
    if (!report.ok()) return report.status();
    TellChoices();
    return StepOutcome{report->applied, report->loss, report->grad_norm, report->tokens};
  }

  absl::StatusOr<EvaluationOutcome> Evaluate(std::span<float> parameters, const HeldOutPiece& piece) override {
    if (piece.first == 0) ATOLL_RETURN_IF_ERROR(BeginPass(parameters));
    const uint64_t all = pass_->reader->samples();
    if (piece.first >= all) return EvaluationOutcome{};
    const auto count = static_cast<uint32_t>(std::min(piece.samples, all - piece.first));
    ATOLL_ASSIGN_OR_RETURN(const SampleBatch batch, pass_->reader->Read(piece.first, count));
    ATOLL_ASSIGN_OR_RETURN(const LossSum sum, pass_->evaluator->Evaluate({batch.tokens, batch.samples}));
    const double bytes = pass_->reader->BytesPerToken(piece.first, count) * static_cast<double>(sum.targets);
    return EvaluationOutcome{count, sum.nll, sum.targets, static_cast<uint64_t>(std::llround(bytes))};
  }

  absl::StatusOr<PieceScore> ScoreTask(std::span<float> parameters, const TaskPiece& piece) override {
    pass_.reset();
    return tasks_.Score(parameters, piece);
  }

 private:
  // State shared by the pieces of one pass over the held-out samples.
  struct Pass {
    std::unique_ptr<HeldOutReader> reader;
    std::unique_ptr<Evaluator> evaluator;
  };

  // Logs once for each of kernels and CUDA graph whether they are used; some of it is known only after steps.
  void TellChoices() {
    if (!told_ && !trainer_->kernels_refused().ok()) {
      told_ = true;
      log_.Warn("optimizer kernels disabled", {{"reason", std::string(trainer_->kernels_refused().message())}});
    }
    if (!told_passes_ && !trainer_->pass_kernels_refused().ok()) {
      told_passes_ = true;
      log_.Warn("pass kernels disabled", {{"reason", std::string(trainer_->pass_kernels_refused().message())}});
    }
    if (!told_kernels_ && trainer_->pass_kernels() != nullptr) {
      told_kernels_ = true;
      log_.Info("pass kernels enabled");
    }
    if (!told_playing_ && trainer_->plays()) {
      told_playing_ = true;
      log_.Info("CUDA graph enabled");
    }
    if (!told_launching_ && !trainer_->recording_refused().ok()) {
      told_launching_ = true;
      log_.Warn("CUDA graph disabled", {{"reason", std::string(trainer_->recording_refused().message())}});
    }
  }

  absl::Status BeginPass(std::span<float> parameters) {
    pass_.reset();
    tasks_.Rest();
    Pass pass;
    ModelOptions of_model = model_options_;
    of_model.kernels = trainer_->pass_kernels();
    ATOLL_ASSIGN_OR_RETURN(pass.reader,
                           HeldOutReader::Create(spec_.data.sequence_length, data_.manifests(), data_.blocks()));
    ATOLL_ASSIGN_OR_RETURN(pass.evaluator, Evaluator::Create(spec_.model, layout_, of_model, device_, parameters));
    pass_ = std::move(pass);
    return absl::OkStatus();
  }

  const JobSpec spec_;
  const ModelLayout layout_;
  const ModelOptions model_options_;
  const TensorDevice device_;
  std::unique_ptr<HostFeed> feed_;  // of the trainer
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<IslandShares> shares_;  // null: a worker of one process
  OptimizerShelf shelf_;
  JobData& data_;
  JobTasks tasks_;
  Log& log_;
  bool told_ = false, told_passes_ = false, told_kernels_ = false, told_playing_ = false, told_launching_ = false;
  std::optional<Pass> pass_;
};

}  // namespace

TorchJobFactory::TorchJobFactory(TorchJobOptions options, std::shared_ptr<Device> device, BulkClient& bulk,
                                 Files& files, const Clock& clock, Log& log)
    : options_(std::move(options)), device_(std::move(device)), bulk_(bulk), files_(files), clock_(clock), log_(log) {}

absl::StatusOr<uint64_t> TorchJobFactory::MemoryForRank() {
  ATOLL_ASSIGN_OR_RETURN(const uint64_t bytes, MemoryForTraining(*device_, options_.memory_limit_bytes));
  // Each rank has a GPU to itself, but ranks on CPUs share the memory of this machine.
  return device_->info().kind == DeviceKind::kCuda ? bytes : bytes / options_.ranks_here;
}

absl::StatusOr<std::unique_ptr<JobParts>> TorchJobFactory::Prepare(const JobId& job, const JobSpec& spec) {
  auto parts = std::make_unique<JobParts>();
  parts->layout = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
  parts->device = device_;
  const TensorDevice device = ToTensorDevice(device_->info());

  // Memory first: a model that does not fit is refused before any fetch.
  Island* const island = options_.island ? &options_.island->values : nullptr;
  TrainerOptions options{device, options_.threads, {}, {}, island, KernelsFor(*device_, cpu_kernels_)};
  if (options_.kernels_in_passes) options.pass_kernels = device_->pass_kernels();
  if (device.gpu && options_.records_passes) options.recorder = device_->pass_recorder();
  const JobSpec share = island == nullptr ? spec : SpecOfShare(spec, island->world());
  ATOLL_ASSIGN_OR_RETURN(uint64_t free_bytes, MemoryForRank());
  parts->formed_by = device.gpu ? options_.formed_by : EncodedBy::kHost;
  FormingMemory forming;
  if (parts->formed_by == EncodedBy::kDevice) forming = EstimateFormingMemory(spec, parts->layout);
  free_bytes -= std::min(free_bytes, forming.gpu_bytes);
  // Without a limit, the trainer reads the host's free memory itself. The ranks of an island must
  // all get the same value.
  if (device.gpu || options_.memory_limit_bytes > 0 || island != nullptr) options.available_bytes = free_bytes;
  // An island records no passes; the log states it.
  const bool records = options.recorder != nullptr && island == nullptr;
  ATOLL_ASSIGN_OR_RETURN(const PassChoice choice, ChoosePasses(share, parts->layout, device, free_bytes,
                                                               records ? Passes::kRecorded : Passes::kLaunched));
  if (!choice.recording_refused.ok()) {
    log_.Warn("CUDA graph disabled", {{"reason", std::string(choice.recording_refused.message())}});
    options.recorder = nullptr;
  }
  const uint32_t micro_batch = choice.micro_batch;
  if (device.gpu) {
    ATOLL_ASSIGN_OR_RETURN(const uint64_t host_bytes, AvailableHostMemory());
    ATOLL_RETURN_IF_ERROR(CheckHostMemory(EstimateTrainingMemory(share, parts->layout, device, micro_batch),
                                          host_bytes - std::min(host_bytes, forming.host_bytes)));
  }
  ATOLL_ASSIGN_OR_RETURN(auto feed, device_->OpenFeed(TokenBytes(share)));
  options.feed = feed.get();

  const JobDataOptions data_options{options_.worker, options_.data_root, options_.cache_dir, options_.cache_bytes,
                                    options_.leave};
  ATOLL_ASSIGN_OR_RETURN(auto data, JobData::Create(data_options, job, spec.data, bulk_, files_, clock_, log_));
  options.end_of_text = data->end_of_text();
  const int32_t end_of_text = options.end_of_text ? static_cast<int32_t>(*options.end_of_text) : -1;
  std::unique_ptr<IslandShares> shares;
  if (island != nullptr) {
    shares = std::make_unique<IslandShares>(*options_.island, parts->layout);
    ATOLL_RETURN_IF_ERROR(shares->BeginPrepare(share, end_of_text, free_bytes));
  }
  ATOLL_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(share, parts->layout, options, clock_));
  if (shares != nullptr) ATOLL_RETURN_IF_ERROR(shares->AwaitPrepared());
  log_.Info("job prepared", {{"job", job.value},
                             {"parameters", parts->layout.elements},
                             {"fragments", parts->layout.fragments.size()},
                             {"micro_batch", micro_batch},
                             {"memory_bytes", trainer->memory().total() + forming.gpu_bytes},
                             {"host_memory_bytes", trainer->memory().host_total() + forming.host_bytes},
                             {"device", device_->info().name}});
  const ModelOptions model_options{spec.data.separate_documents, end_of_text};
  JobTasks tasks(spec, parts->layout, data->tokenizer(), device, options_.worker, options_.leave, bulk_);
  // Accepts a lead of two periods: a worker may end between two heartbeats, ahead of what the coordinator knows.
  OptimizerShelf shelf(
      {options_.cache_dir, options_.worker.value, options_.optimizer_snapshot, uint64_t{2} * spec.sync.inner_steps},
      job, parts->layout.digest, files_, clock_, log_);
  parts->model =
      std::make_unique<TorchModel>(spec, parts->layout, model_options, device, std::move(feed), std::move(trainer),
                                   std::move(shares), std::move(shelf), *data, std::move(tasks), log_);
  parts->samples = std::move(data);
  return parts;
}

absl::Status TorchJobFactory::WhyLost(const absl::Status& why) { return WhyDeviceLost(*device_, why); }

}  // namespace atl
