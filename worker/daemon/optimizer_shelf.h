// SPDX-License-Identifier: Apache-2.0
// Keeps the inner optimizer of a worker's job on disk between two runs of the process.
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
  std::string cache_dir;     // the file is optimizer/WORKER/JOB.safetensors in it; files of other jobs are removed
  std::string worker;        // other workers may use the same directory
  Duration interval;         // between two snapshots; zero: none are taken
  uint64_t slack_steps = 0;  // accepted lead of a snapshot over the job's clock: work that was in flight
};

// Owned by the train thread. Errors are logged and stop nothing.
class OptimizerShelf {
 public:
  // All arguments outlive the shelf.
  OptimizerShelf(OptimizerShelfOptions options, JobId job, Digest layout, Files& files, const Clock& clock, Log& log);
  // Initialises the trainer's optimizer from the job's snapshot, or to zero. Returns only errors of the device.
  absl::Status Begin(const JobStanding& at, Trainer& trainer);
  // Writes a snapshot if the worker is `leaving` or one is due: after the interval, and after a hundred times the
  // duration of the last snapshot, which limits them to 1 % of the time. None before a step or with SGD.
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
  bool told_ = false;  // a failure was logged
};

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_OPTIMIZER_SHELF_H_
