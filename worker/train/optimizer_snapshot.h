// SPDX-License-Identifier: Apache-2.0
// A snapshot of a job's inner optimizer in a local file: moments and steps, but no parameters,
// which come from the coordinator. A restarted worker resumes with it, so that its first steps do
// not disturb the job. Format: docs/formats/optimizer-snapshot.md.
#ifndef ATOLL_WORKER_TRAIN_OPTIMIZER_SNAPSHOT_H_
#define ATOLL_WORKER_TRAIN_OPTIMIZER_SNAPSHOT_H_

#include <cstdint>
#include <string>

#include "common/base/files.h"
#include "common/base/hash.h"
#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/plan/boot_lines.h"
#include "common/plan/messages.h"
#include "worker/train/trainer.h"

namespace atl {

// Identifies the state that moments belong to.
struct OptimizerSnapshotFacts {
  JobId job;
  Digest layout;            // of the parameters (common/plan/model_layout.h)
  uint64_t clock_step = 0;  // of the job
  VersionVector versions;   // of its fragments
  JobCourse course{};       // of the job
};

// Writes the trainer's moments to `path`, atomically. FailedPrecondition with SGD, which has none.
absl::Status WriteOptimizerSnapshot(Files& files, const std::string& path, const OptimizerSnapshotFacts& facts,
                                    Trainer& trainer);

// Restores the trainer's moments and steps from `path`, and returns the job step of the snapshot. NotFound if
// there is no file, or with SGD; FailedPrecondition if it is of another job, course or model, or of a step or
// version beyond those of `facts`; DataLoss if it is damaged. On any error the trainer's optimizer is at zero.
absl::StatusOr<uint64_t> ReadOptimizerSnapshot(const Files& files, const std::string& path,
                                               const OptimizerSnapshotFacts& facts, Trainer& trainer);

}  // namespace atl

#endif  // ATOLL_WORKER_TRAIN_OPTIMIZER_SNAPSHOT_H_
