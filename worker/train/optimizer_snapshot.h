// SPDX-License-Identifier: Apache-2.0
// The inner optimizer of a job, kept in a file of the worker's own: moments and steps, nothing of the parameters, which
// are the coordinator's to give. A worker that was started again takes them up, so that its first steps are no one
// else's to pay for. Format: docs/formats/optimizer-snapshot.md.
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

// What moments belong to.
struct OptimizerSnapshotFacts {
  JobId job;
  Digest layout;            // of the parameters (common/plan/model_layout.h)
  uint64_t clock_step = 0;  // of the job
  VersionVector versions;   // of its fragments
  JobCourse course{};       // of the job
};

// Writes the trainer's moments to `path`, whole or not at all. FailedPrecondition with SGD, which has none.
absl::Status WriteOptimizerSnapshot(Files& files, const std::string& path, const OptimizerSnapshotFacts& facts,
                                    Trainer& trainer);

// The trainer's moments and steps are those of `path`. NotFound when there is no file; FailedPrecondition when it is of
// another job, course or model, or of a step or a version beyond those of `facts`; DataLoss when it is damaged. On any
// error the trainer's optimizer is at zero. The step that they were kept at otherwise.
absl::StatusOr<uint64_t> ReadOptimizerSnapshot(const Files& files, const std::string& path,
                                               const OptimizerSnapshotFacts& facts, Trainer& trainer);

}  // namespace atl

#endif  // ATOLL_WORKER_TRAIN_OPTIMIZER_SNAPSHOT_H_
