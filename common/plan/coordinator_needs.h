// SPDX-License-Identifier: Apache-2.0
// What a job may take of the coordinator: published bounds on memory and disk, and the sentence that refuses a job that
// does not fit (docs/design.md section 4, "Published bounds"; docs/capacity.md). Pure arithmetic.
#ifndef ATOLL_COMMON_PLAN_COORDINATOR_NEEDS_H_
#define ATOLL_COMMON_PLAN_COORDINATOR_NEEDS_H_

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/plan/job_spec.h"

namespace atl {

// The coordinator itself, its ports and its ledger's cache, whatever runs.
constexpr uint64_t kCoordinatorBaseBytes = uint64_t{64} << 20;
// Files that it holds open beside those of rounds: ledger, logs, what is being read and written.
constexpr uint64_t kCoordinatorOpenFiles = 64;
// Frames of one worker on their way in or out.
constexpr uint64_t kTransportBytesPerWorker = uint64_t{4} << 20;

// What peers may make the transport of the control port, and of the bulk port, hold, on a machine or in a cgroup of so
// much memory: an eighth of it, 64 to 256 MiB, or a 128th where that is more, up to 1 GiB; 0, where it is unknown, is
// 256 MiB. Near it gRPC makes its windows smaller: with 1 MiB an upload it breaks uploads, with 4 they go on at full
// rate.
uint64_t PortQuotaBytes(uint64_t memory_bytes);
// What the guard in front of each of those ports holds at most (common/guard/guard.h), and that of the enrolment port.
constexpr uint64_t kGuardBytes = uint64_t{64} << 20;
constexpr uint64_t kEnrollGuardBytes = uint64_t{24} << 20;

// Sizes that follow from model, fragments and codecs.
struct JobSizes {
  uint64_t parameters = 0;
  uint32_t fragments = 1;
  uint64_t contribution_bytes = 0;          // one worker's, encoded, summed over all fragments
  uint64_t largest_contribution_bytes = 0;  // of one fragment
  uint64_t update_bytes = 0;                // encoded, summed over all fragments
};

struct CoordinatorNeeds {
  uint64_t memory_bytes = 0;
  uint64_t disk_bytes = 0;
  uint64_t open_files = 0;
  CoordinatorNeeds& operator+=(const CoordinatorNeeds& other);  // stops at the largest number
};

// The most that a job takes, with `workers.max` workers of it; never wraps.
//   memory = 12 P state + 12 P copies that are being written + 4 P (1 MiB a fragment at most) of the outer step before
//   + 2 updates of every fragment (published, being committed)
//          + the contributions to one round of the largest fragment + kTransportBytesPerWorker a worker
//   disk   = 24 P old and new snapshot + 16 P snapshot and updates for who joins over a link that breaks
//            + two rounds, 12 P where that is more + two rounds more + 12 P a checkpoint;
//            48 P + all rounds and the open one + 12 P a checkpoint with checkpoint.keep_contributions
//   files  = the open round of every fragment
// with P parameters, in bytes. The event log is left out: it gives way on a full disk.
CoordinatorNeeds NeedsOf(const JobSpec& spec, const JobSizes& sizes);

// What of `needs.disk_bytes` a job has taken for certain once its version 0 is on disk, with these finished checkpoints
// and committed rounds (of all fragments). At most NeedsOf().disk_bytes.
uint64_t TakenOnDisk(const JobSpec& spec, const JobSizes& sizes, uint64_t checkpoints, uint64_t rounds);

// What there is.
struct CoordinatorCapacity {
  uint64_t memory_bytes = 0;      // the machine's, or its cgroup's limit; 0: unknown, nothing is refused for it
  uint64_t transport_bytes = 0;   // of that, what peers may make all ports hold: the quotas
  uint64_t disk_free_bytes = 0;   // of the state directory
  uint64_t disk_total_bytes = 0;  // 0: unknown
  uint64_t open_files = 0;        // that it may hold beside its connections; 0: unknown
};

// OK when a job with `wanted` fits beside unfinished jobs that need `others.memory_bytes` and `others.open_files` in
// all and may still take `others.disk_bytes`. ResourceExhausted with the figures otherwise. A tenth of the disk stays
// free: below it no upload is granted. `way_out` stands before the other advice: what of the job file would help, empty
// for nothing.
absl::Status CheckCapacity(const CoordinatorCapacity& capacity, const CoordinatorNeeds& wanted,
                           const CoordinatorNeeds& others, uint32_t workers_max, const std::string& way_out = "");

// The same for a job that has taken `taken_disk_bytes` already; a refusal names the largest workers.max that fits,
// where one does: a job file that does not give it asks for 64, however few are planned.
absl::Status CheckJobFits(const CoordinatorCapacity& capacity, const JobSpec& spec, const JobSizes& sizes,
                          uint64_t taken_disk_bytes, const CoordinatorNeeds& others);

// "1.5 GiB", "312 MiB".
std::string BinarySize(uint64_t bytes);

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_COORDINATOR_NEEDS_H_
