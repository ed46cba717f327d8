// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/island_follower.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/host_cores.h"
#include "common/base/mutex.h"
#include "common/base/queued_writer.h"
#include "common/wire/job_spec_proto.h"
#include "worker/daemon/exit_codes.h"
#include "worker/daemon/island_shares.h"
#include "worker/daemon/last_exit.h"
#include "worker/daemon/preparation.h"
#include "worker/island/gpu_island.h"
#include "worker/island/orders.h"
#include "worker/train/cpu_step_kernels.h"
#include "worker/train/trainer.h"

namespace atl {
namespace {

constexpr Duration kLook = Milliseconds(250);
constexpr Duration kLastOrders = Seconds(2);  // to receive rank 0's last orders after it ended

int Fail(uint32_t rank, const absl::Status& status) {
  StandardError().Write(absl::StrCat("atoll-worker: rank ", rank, ": ", status.message(), "\n"));
  return IslandExitCode(status);
}

// Ends the process kLastOrders after rank 0 has ended, even while this rank computes, unless destroyed.
class Watchdog {
 public:
  explicit Watchdog(const TcpIsland& island) : thread_([this, &island] { Watch(island); }) {}
  ~Watchdog() {
    MutexLock lock(mutex_);
    over_ = true;
    changed_.NotifyAll();
  }

 private:
  bool OverWithin(Duration limit) ATOLL_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (!over_) changed_.WaitFor(mutex_, limit);
    return over_;
  }
  void Watch(const TcpIsland& island) {
    while (!OverWithin(kLook)) {
      if (island.Look().ok()) continue;
      if (OverWithin(kLastOrders)) return;
      EndProcess(kWorkerIsland,
                 absl::StrCat("atoll-worker: rank ", island.rank(), ": rank 0, which leads the island, ended\n"));
    }
  }

  Mutex mutex_;
  CondVar changed_;
  bool over_ ATOLL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

class Follower {
 public:
  Follower(const WorkerOptions& options, IslandWays ways, Device& device, const Clock& clock, Log& log)
      : orders_(ways.orders),
        values_(ways.values),
        device_(device),
        threads_(ThreadsOf(options)),
        pass_kernels_(options.pass_kernels == PassKernelChoice::kAuto ? device.pass_kernels() : nullptr),
        clock_(clock),
        log_(log) {}

  // Executes one order of rank 0. True if the order is to leave.
  absl::StatusOr<bool> Follow(const IslandOrder& order) {
    if (std::holds_alternative<LeaveOrder>(order)) return true;
    if (std::holds_alternative<ReleaseOrder>(order)) {
      trainer_.reset();
      feed_.reset();
      malloc_trim(0);  // returns freed memory to the system, for the next job
      return false;
    }
    if (const auto* prepare = std::get_if<PrepareOrder>(&order)) {
      ATOLL_RETURN_IF_ERROR(orders_.Answer(EncodeAnswer(Prepare(*prepare))));
      return false;
    }
    if (trainer_ == nullptr) return absl::InternalError("an order for a job that is not prepared");
    ATOLL_RETURN_IF_ERROR(Train(order));
    return false;
  }

 private:
  absl::Status Prepare(const PrepareOrder& order) {
    trainer_.reset();
    v1::JobSpec message;
    JobSpec spec;
    if (!message.ParseFromString(order.spec) || !JobSpecFromProto(message, false, spec).empty()) {
      return absl::InternalError("the job that rank 0 sent cannot be read");
    }
    const ModelLayout layout = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
    if (layout.digest != order.layout) return absl::InternalError("the job's layout differs from that of rank 0");
    TrainerOptions options{ToTensorDevice(device_.info()), threads_, {},
                           order.available_bytes,          &values_, KernelsFor(device_, cpu_kernels_)};
    ATOLL_ASSIGN_OR_RETURN(feed_, device_.OpenFeed(TokenBytes(spec)));
    options.feed = feed_.get();
    options.pass_kernels = pass_kernels_;
    if (options.device.gpu) {  // rank 0 knows only its own free memory
      ATOLL_ASSIGN_OR_RETURN(const uint64_t free_bytes, device_.FreeMemoryBytes());
      options.available_bytes = std::min(order.available_bytes, free_bytes);
    }
    if (order.end_of_text >= 0) options.end_of_text = static_cast<uint32_t>(order.end_of_text);
    ATOLL_ASSIGN_OR_RETURN(trainer_, Trainer::Create(spec, layout, options, clock_));
    if (!trainer_->kernels_refused().ok()) {
      log_.Warn("optimizer kernels disabled",
                {{"rank", orders_.rank()}, {"reason", std::string(trainer_->kernels_refused().message())}});
    }
    if (!trainer_->pass_kernels_refused().ok()) {
      log_.Warn("pass kernels disabled",
                {{"rank", orders_.rank()}, {"reason", std::string(trainer_->pass_kernels_refused().message())}});
    }
    log_.Info("share prepared", {{"rank", orders_.rank()},
                                 {"device", device_.info().name},
                                 {"parameters", layout.elements},
                                 {"micro_batch", trainer_->micro_batch()},
                                 {"memory_bytes", trainer_->memory().total()}});
    return absl::OkStatus();
  }

  absl::Status Train(const IslandOrder& order) {
    if (const auto* changed = std::get_if<ParametersOrder>(&order)) {
      const auto all = trainer_->parameters().memory();
      if (changed->offset > all.size() || changed->elements > all.size() - changed->offset) {
        return absl::InternalError("parameters beyond the arena");
      }
      trainer_->ParametersChanged({changed->offset, changed->elements});
      return values_.Broadcast(all.subspan(changed->offset, changed->elements), trainer_->compute_stream());
    }
    if (const auto* optimizer = std::get_if<OptimizerOrder>(&order)) return TakeOptimizer(optimizer->steps);
    const auto& step = std::get<StepOrder>(order);
    const auto report = trainer_->StepShare({step.tokens, step.sequences}, step.targets, step.learning_rate);
    ATOLL_RETURN_IF_ERROR(report.status());
    return CompareReplicas(values_, *trainer_);
  }

  absl::Status TakeOptimizer(uint64_t steps) {
    if (steps == 0) return trainer_->ResetOptimizer();
    for (Arena* moments : {trainer_->first_moments(), trainer_->second_moments()}) {
      if (moments == nullptr) continue;
      ATOLL_RETURN_IF_ERROR(values_.Broadcast(moments->memory(), trainer_->compute_stream()));
    }
    trainer_->set_optimizer_steps(steps);
    return absl::OkStatus();
  }

  TcpIsland& orders_;
  Island& values_;
  Device& device_;
  const int32_t threads_;
  PassKernels* const pass_kernels_;
  const Clock& clock_;
  Log& log_;
  CpuStepKernels cpu_kernels_;
  std::unique_ptr<HostFeed> feed_;  // feed of the trainer
  std::unique_ptr<Trainer> trainer_;
};

// Executes rank 0's orders. OK once it orders to leave; Unavailable if an order fails, which breaks the island.
absl::Status FollowAll(TcpIsland& island, Follower& follower) {
  for (;;) {
    ATOLL_ASSIGN_OR_RETURN(const std::string bytes, island.AwaitOrder());
    const auto order = DecodeOrder(bytes);
    const absl::StatusOr<bool> leaves = order.ok() ? follower.Follow(*order) : order.status();
    if (leaves.ok() && *leaves) return absl::OkStatus();
    if (leaves.ok()) continue;
    island.Break(std::string(leaves.status().message()));  // no effect if already broken
    return absl::UnavailableError(leaves.status().message());
  }
}

}  // namespace

IslandPlace PlaceOf(const IslandOptions& options, const std::string& version) {
  return {options.rank, options.size, options.address, options.port, options.secret, version};
}

int32_t ThreadsOf(const WorkerOptions& options) {
  if (options.threads > 0) return static_cast<int32_t>(options.threads);
  const uint32_t cores = UsableCores();
  // LibTorch's default, kept by 0, is the number of visible cores, without regard to a CPU quota.
  if (options.island.size == 1) return cores < std::thread::hardware_concurrency() ? static_cast<int32_t>(cores) : 0;
  return static_cast<int32_t>(std::max(1U, cores / options.island.ranks_here));
}

int RunIslandFollower(const WorkerOptions& options, const GpuPlugin& plugin, const std::string& version,
                      const Clock& clock, Log& log) {
  const uint32_t rank = options.island.rank;
  const auto device = OpenChosenDevice(plugin, options);
  if (!device.ok()) return Fail(rank, device.status());
  const pid_t parent = getppid();
  auto mesh = MeetAsFollower(PlaceOf(options.island, version), {}, clock, [parent]() -> absl::Status {
    if (getppid() == parent) return absl::OkStatus();
    return absl::UnavailableError("the process that started this rank has ended, and rank 0 is unreachable");
  });
  if (!mesh.ok()) return Fail(rank, mesh.status());
  TcpIsland island(*std::move(mesh), {}, clock);
  const Watchdog watchdog(island);
  const auto gpus = GpuIsland::Join(island, **device, clock);
  if (!gpus.ok()) return Fail(rank, gpus.status());
  const IslandWays ways{island, *gpus != nullptr ? static_cast<Island&>(**gpus) : island};
  log.Info("island connected", {{"rank", rank}, {"ranks", island.world()}, {"device", (*device)->info().name}});
  Follower follower(options, ways, **device, clock, log);
  const absl::Status end = FollowAll(island, follower);
  if (end.ok()) return kWorkerLeft;
  EndProcessWithin(kLastExit, kWorkerIsland);
  return Fail(rank, end);
}

}  // namespace atl
