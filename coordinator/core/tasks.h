// SPDX-License-Identifier: Apache-2.0
// Tasks that the core gives to the engine's executors: blocking work. A task ends with the event after its arrow
// (events.h), unless its job is released before; one without an arrow has no event. Pure values.
#ifndef ATOLL_COORDINATOR_CORE_TASKS_H_
#define ATOLL_COORDINATOR_CORE_TASKS_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "common/base/ids.h"
#include "common/plan/messages.h"
#include "common/plan/records.h"

namespace atl {

using UploadId = uint64_t;  // of an upload conversation; never reused in one process

struct PrepareParameters {  // -> ParametersReady, PreparationDelayed or TaskFailed
  JobId job;
};
struct FlushAcceptance {  // -> ContributionDurable
  UploadId upload = 0;
};
struct CloseRound {  // -> RoundAggregated or ContributionsScreened or TaskFailed
  JobId job;
  uint64_t epoch = 0;
  FragmentVersion target;  // the version from which it starts
  uint64_t spec_revision = 0;
  std::vector<ContributionHeader> contributions;  // in worker-name order
  uint64_t clock_step = 0;                        // job clock after the commit
  bool past_finished = false;                     // a worker has nothing more for it; few norms are judged by history
};
struct WriteCheckpoint {  // -> CheckpointWritten, CheckpointDelayed or TaskFailed; right after the preceding commits
  JobId job;
  uint64_t step = 0;
  VersionVector versions;
  uint64_t pool_consumed = 0, pool_frontier = 0;  // as in its record
};
struct DropCheckpoint {
  JobId job;
  uint64_t step = 0;
};
// Reads all files of a checkpoint, to verify them, and changes nothing -> CheckpointChecked.
struct CheckCheckpoint {
  JobId job;
  uint64_t step = 0;
  VersionVector versions;      // expected content
  std::vector<Digest> hashes;  // of these versions
};
// Restores parameters and outer state from a checkpoint, durable as snapshots -> ParametersReady,
// PreparationDelayed or TaskFailed.
struct RestoreCheckpoint {
  JobId job;
  uint64_t step = 0;
  uint64_t epoch = 0;
};
// The job has ended, or stopped for a failure: frees its memory, and for an ended job the files
// that retention does not keep; for a purged job, all files.
struct ReleaseJob {
  JobId job;
  bool ended = false;
  bool purged = false;
};
using Task = std::variant<PrepareParameters, FlushAcceptance, CloseRound, WriteCheckpoint, DropCheckpoint,
                          CheckCheckpoint, RestoreCheckpoint, ReleaseJob>;

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_TASKS_H_
