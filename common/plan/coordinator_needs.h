// SPDX-License-Identifier: Apache-2.0
// Published bounds on the coordinator's memory and disk for a job, and the error message for a job
// that does not fit (docs/design.md section 4, "Published bounds"; docs/capacity.md). Pure
// arithmetic.
#ifndef ATOLL_COMMON_PLAN_COORDINATOR_NEEDS_H_
#define ATOLL_COMMON_PLAN_COORDINATOR_NEEDS_H_

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/plan/job_spec.h"

namespace atl {

// Memory of the coordinator itself, its ports and its ledger's cache, without jobs.
constexpr uint64_t kCoordinatorBaseBytes = uint64_t{64} << 20;
// Open files in addition to those of rounds: ledger, logs, files being read and written.
constexpr uint64_t kCoordinatorOpenFiles = 64;
// Frames of one worker in flight, in both directions.
constexpr uint64_t kTransportBytesPerWorker = uint64_t{4} << 20;

// Memory quota for gRPC's transport at each of the two ports, control and bulk, on a machine or in a cgroup with
// `memory_bytes`. The quota is an eighth of that memory within 64 to 256 MiB, or a 128th where that is more, up to
// 1 GiB. 0 (unknown) gives 256 MiB. Near the quota gRPC shrinks its windows: with 1 MiB of quota for each upload,
// uploads break; with 4 MiB they run at full rate.
uint64_t PortQuotaBytes(uint64_t memory_bytes);
// Memory bound of the guard in front of each of these ports (common/guard/guard.h) with gRPC's state of open
// calls, some 14 KB each (kOpenCallsOfAll), and of the enrolment port's guard.
constexpr uint64_t kGuardBytes = uint64_t{128} << 20;
constexpr uint64_t kEnrollGuardBytes = uint64_t{24} << 20;

// Sizes derived from model, fragments and codecs.
struct JobSizes {
  uint64_t parameters = 0;
  uint32_t fragments = 1;
  uint64_t contribution_bytes = 0;          // of one worker, encoded, summed over all fragments
  uint64_t largest_contribution_bytes = 0;  // of one fragment
  uint64_t update_bytes = 0;                // encoded, summed over all fragments
};

struct CoordinatorNeeds {
  uint64_t memory_bytes = 0;
  uint64_t disk_bytes = 0;
  uint64_t open_files = 0;
  CoordinatorNeeds& operator+=(const CoordinatorNeeds& other);  // saturates
};

// Upper bounds for a job with `workers.max` workers; saturating. In bytes, with P parameters:
//   memory = 12 P state + 12 P copies being written + 4 P (at most 1 MiB a fragment) previous outer step
//          + 2 updates of every fragment (published, being committed)
//          + contributions to one round of the largest fragment + kTransportBytesPerWorker a worker
//   disk   = 24 P old and new snapshot + 16 P snapshot and updates for workers that join over a bad link
//          + max(two rounds, 12 P) + two rounds + 12 P a checkpoint
//          with checkpoint.keep_contributions:
//          48 P + all rounds and the open one + 12 P a checkpoint
//   files  = the larger of the number of fragments (one open round each) and of files of initial weights
// The event log is not counted: it stops on a full disk.
CoordinatorNeeds NeedsOf(const JobSpec& spec, const JobSizes& sizes);

// Estimates from below how much of NeedsOf().disk_bytes a job already uses once its version 0 is on disk, with this
// number of complete checkpoints and of committed rounds (counted over all fragments). At most NeedsOf().disk_bytes.
uint64_t TakenOnDisk(const JobSpec& spec, const JobSizes& sizes, uint64_t checkpoints, uint64_t rounds);

// Capacity of the coordinator's machine.
struct CoordinatorCapacity {
  uint64_t memory_bytes = 0;      // the machine's, or its cgroup's limit; 0: unknown, not checked
  uint64_t transport_bytes = 0;   // part of it that peers may make all ports use: the quotas
  uint64_t disk_free_bytes = 0;   // of the state directory
  uint64_t disk_total_bytes = 0;  // 0: unknown
  uint64_t open_files = 0;        // that remain after its connections; 0: unknown
};

// OK when a job with needs `wanted` fits next to the unfinished jobs. These need
// `others.memory_bytes` and `others.open_files` in all, and may still use `others.disk_bytes`.
// Otherwise ResourceExhausted with the figures. A tenth of the disk must stay free, because no
// upload is granted below it. `way_out` is advice about the job file, put before the other advice;
// may be empty.
absl::Status CheckCapacity(const CoordinatorCapacity& capacity, const CoordinatorNeeds& wanted,
                           const CoordinatorNeeds& others, uint32_t workers_max, const std::string& way_out = "");

// CheckCapacity for a job that already uses `taken_disk_bytes`. A refusal names the largest workers.max that fits, if
// one does and the job has no data.assignment: shards: a job file without workers.max asks for 64 workers or more.
absl::Status CheckJobFits(const CoordinatorCapacity& capacity, const JobSpec& spec, const JobSizes& sizes,
                          uint64_t taken_disk_bytes, const CoordinatorNeeds& others);

// "1.5 GiB", "312 MiB".
std::string BinarySize(uint64_t bytes);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_COORDINATOR_NEEDS_H_
