// SPDX-License-Identifier: Apache-2.0
// The parts of a job in production: corpora from local shards or the coordinator, LibTorch's trainer and evaluator,
// and the device.
#ifndef ATOLL_WORKER_DAEMON_TORCH_JOB_H_
#define ATOLL_WORKER_DAEMON_TORCH_JOB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/time.h"
#include "common/rpc/bulk.h"
#include "worker/device/device.h"
#include "worker/island/gpu_island.h"
#include "worker/session/job.h"
#include "worker/train/cpu_step_kernels.h"

namespace atl {

struct TorchJobOptions {
  WorkerId worker;
  std::string data_root;  // empty: blocks are streamed
  std::string cache_dir;
  uint64_t cache_bytes = 0;
  int32_t threads = 0;
  uint64_t memory_limit_bytes = 0;         // 0: the machine's memory
  Duration optimizer_snapshot{};           // time between two snapshots of the inner optimizer; zero: none
  std::optional<IslandWays> island;        // this process is its rank 0; outlives factory and jobs
  uint32_t ranks_here = 1;                 // processes that share this machine's memory
  EncodedBy formed_by = EncodedBy::kHost;  // the side that forms contributions if the device is a GPU
  bool records_passes = false;             // records passes if the device can
  bool kernels_in_passes = false;          // passes use the device's kernels, if it has them
  std::stop_token leave = {};              // cancels the fetches of Prepare and of tasks
};

class TorchJobFactory final : public JobFactory {
 public:
  // All arguments outlive the factory, which outlives its jobs. `files` is used from several threads.
  TorchJobFactory(TorchJobOptions options, std::shared_ptr<Device> device, BulkClient& bulk, Files& files,
                  const Clock& clock, Log& log);
  absl::StatusOr<std::unique_ptr<JobParts>> Prepare(const JobId& job, const JobSpec& spec) override;
  absl::Status WhyLost(const absl::Status& why) override;

 private:
  // The memory that one rank may take.
  absl::StatusOr<uint64_t> MemoryForRank();

  const TorchJobOptions options_;
  const std::shared_ptr<Device> device_;
  BulkClient& bulk_;
  Files& files_;
  const Clock& clock_;
  Log& log_;
  CpuStepKernels cpu_kernels_;
};

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_TORCH_JOB_H_
