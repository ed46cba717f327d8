// SPDX-License-Identifier: Apache-2.0
// Where a worker keeps the inner optimizer of its job between two lives of the process, and when.
#ifndef ATOLL_WORKER_DAEMON_OPTIMIZER_SHELF_H_
#define ATOLL_WORKER_DAEMON_OPTIMIZER_SHELF_H_

#include <cstdint>
#include <string>

#include "common/base/files.h"
#include "common/base/hash.h"
#include "common/base/ids.h"
#include "common/base/log.h"
#include "common/base/time.h"
#include "worker/session/job.h"
#include "worker/train/trainer.h"

namespace atl {

struct OptimizerShelfOptions {
  std::string cache_dir;     // below it: optimizer/WORKER/JOB.safetensors, the job trained last alone
  std::string worker;        // others may keep theirs in the same directory
  Duration interval;         // between two snapshots; zero: none are kept
  uint64_t slack_steps = 0;  // by how much a snapshot may be ahead of where the job stands: what was on its way
};

// Owned by the train thread. What fails here is told in the log and stops nothing.
class OptimizerShelf {
 public:
  // Everything given outlives the shelf.
  OptimizerShelf(OptimizerShelfOptions options, JobId job, Digest layout, Files& files, const Clock& clock, Log& log);
  // The trainer begins with what was kept of the job, or at zero. An error of the device only.
  absl::Status Begin(const JobStanding& at, Trainer& trainer);
  // Keeps it, if it is time: the interval has passed, and a hundred times what the last snapshot took, so that at most
  // a hundredth of the time goes into it; or the worker leaves.
  void Keep(const JobStanding& at, bool leaving, Trainer& trainer);

 private:
  absl::Status Write(const JobStanding& at, Trainer& trainer);

  const OptimizerShelfOptions options_;
  const JobId job_;
  const Digest layout_;
  const std::string directory_, path_;
  Files& files_;
  const Clock& clock_;
  Log& log_;
  Instant due_;
  bool told_ = false;  // that it cannot be kept
};

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_OPTIMIZER_SHELF_H_
