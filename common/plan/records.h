// SPDX-License-Identifier: Apache-2.0
// The ledger in domain form: the state that the coordinator stores durably before it sends any
// message about it (docs/design.md section 7). The core creates records, the store stores them, and
// recovery returns them. All records of one step form one transaction. An upsert replaces the row
// with the same key; an appended row never changes.
#ifndef ATOLL_COMMON_PLAN_RECORDS_H_
#define ATOLL_COMMON_PLAN_RECORDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/hash.h"
#include "common/base/ids.h"
#include "common/plan/job_spec.h"
#include "common/plan/messages.h"

namespace atl {

// Values are part of the ledger format; never renumber.
enum class JobState : uint32_t {
  kPending = 1,
  kWaitingForWorkers = 2,
  kRunning = 3,
  kPaused = 4,
  kClosing = 5,
  kSucceeded = 6,
  kFailed = 7,
  kCancelled = 8,
};
inline bool HasEnded(JobState s) {
  return s == JobState::kSucceeded || s == JobState::kFailed || s == JobState::kCancelled;
}

// Key: job. Upsert.
struct JobRecord {
  JobId job;
  uint64_t sequence = 0;  // order of submission, for the queue
  JobSpec spec;           // resolved
  uint64_t spec_revision = 1;
  JobState state = JobState::kPending;
  std::string reason;
  std::string request_id;        // of the submit call; may be empty
  uint64_t stop_step = 0;        // planned end of the job clock
  uint64_t dataset_samples = 0;  // positions of the data order that may be leased; UINT64_MAX: unlimited
  uint64_t held_out_samples = 0;
  uint32_t fragments = 0;
  uint64_t epoch = 0;             // incremented by each rollback: versions of an older epoch are fenced
  bool parameters_ready = false;  // version 0 is a snapshot on disk; for an ended job: not purged since
  bool draining = false;          // cancelled with drain: closes as at the stop rule, ends CANCELLED
  uint64_t next_evaluation = 0;
  int64_t create_wall_nanos = 0, start_wall_nanos = 0, end_wall_nanos = 0;
};

// Key: job. Upsert. Together with the leases it gives the state of every sample (I12).
struct PoolRecord {
  JobId job;
  uint64_t frontier = 0;              // positions from here on were never leased
  std::vector<SampleRange> returned;  // below the frontier, available again; disjoint, ascending
  uint64_t consumed = 0;              // samples in committed contributions
  uint64_t abandoned = 0;
};

// Key: worker. Upsert; deleted by WorkerForgotten.
struct WorkerRecord {
  WorkerId worker;
  Incarnation incarnation;
  uint64_t start_nonce = 0;
  JobId job;  // assigned job; empty: none
  bool evaluate_only = false;
  std::string device;
  LeaseId leases_from;     // leases of this worker with a smaller id were taken back
  std::string quarantine;  // why the worker is quarantined until an operator readmits it; empty: it is not
  bool cordoned = false;   // an operator keeps it from getting another job
};

// Deletes a worker that is gone for a week, or too many are gone. A later Hello with this name is a new worker.
struct WorkerForgotten {
  WorkerId worker;
};

// Key: lease. Upsert; deleted by LeaseClosed when each of its samples is consumed or was taken back.
struct LeaseRecord {
  LeaseId lease;
  JobId job;
  WorkerId worker;
  Incarnation incarnation;
  SampleRange range;
  uint64_t consumed_to = 0;  // samples before this are in a committed contribution
  uint64_t request = 0;      // the answered LeaseRequest
  bool revoked = false;      // only samples of accepted contributions will still be consumed
};
struct LeaseClosed {
  LeaseId lease;
};

struct CommittedContribution {
  ContributionHeader header;
  double weight = 0;       // normalised; exact bits
  double clip_factor = 1;  // scale of the norm screen; not included in the weights
  double norm = 0;         // L2 norm as decoded, before the clip; 0 in rounds written without it
};

// Key: (job, epoch, fragment, version reached). Append.
struct RoundRecord {
  JobId job;
  uint64_t epoch = 0;
  FragmentVersion reached;
  uint64_t spec_revision = 0;
  uint32_t arithmetic_revision = kArithmeticRevision;
  std::vector<CommittedContribution> contributions;  // ordered by worker name; empty only when every sync was dropped
  std::vector<WorkerId> dropped;                     // workers that dropped their sync in the round on purpose, by name
  double learning_rate = 0, momentum = 0;
  Digest hash;  // ContentHash at the new version
  Digest update_digest;
  uint64_t update_bytes = 0;
  uint64_t clock_step = 0;  // job clock after the commit
  uint64_t tokens = 0;      // tokens in its contributions
  BootNumber boot;
  int64_t wall_nanos = 0;
};

// Key: (job, evaluation). Append.
struct EvaluationRecord {
  JobId job;
  uint64_t evaluation = 0;
  uint64_t clock_step = 0;
  VersionVector versions;
  int64_t nll_micro_nats = 0;
  uint64_t tokens = 0, text_bytes = 0, trained_tokens = 0;
  int64_t wall_nanos = 0;
  std::vector<TaskScore> tasks = {};  // empty: not scored
};

// Key: (job, step). Upsert; `complete` once the files are on disk. Deleted by CheckpointDropped.
struct CheckpointRecord {
  JobId job;
  uint64_t step = 0;  // requested job clock
  VersionVector versions;
  std::vector<Digest> hashes;  // content hash of each fragment
  bool complete = false;
  uint64_t pool_consumed = 0;  // PoolRecord::consumed at that point, for rollback
  uint64_t pool_frontier = 0;
  int64_t wall_nanos = 0;
  // True: kept permanently, by the checkpoint.keep_every in effect when the checkpoint was begun. False: kept only
  // while the checkpoint is among the newest checkpoint.keep_last.
  bool kept_for_good = false;
};
struct CheckpointDropped {
  JobId job;
  uint64_t step = 0;
};

// Key: job, fragment, worker. Upsert: an accepted contribution in the round log that a screen
// refused. Removed by the round's commit and by a rollback of the job.
struct ScreenedRecord {
  JobId job;
  uint64_t epoch = 0;
  FragmentVersion target;
  WorkerId worker;
  Digest digest;
};

// Counters that never decrease.
struct CountersRecord {
  uint64_t next_lease = 1;
  uint64_t next_incarnation = 1;
  uint64_t next_job_sequence = 1;
};

// A rollback of a job to `versions`: its later rounds are void. Their rows stay, under the old epoch.
struct RollbackRecord {
  JobId job;
  uint64_t epoch = 0;  // the new one
  VersionVector versions;
};

using LedgerRecord =
    std::variant<JobRecord, PoolRecord, WorkerRecord, WorkerForgotten, LeaseRecord, LeaseClosed, RoundRecord,
                 EvaluationRecord, CheckpointRecord, CheckpointDropped, CountersRecord, RollbackRecord, ScreenedRecord>;

// State of a fragment according to the ledger.
struct FragmentHead {
  Version version;
  Digest hash;  // zero when no round and no checkpoint in the ledger has it, as for a version 0
};

// Sum of the tokens in a worker's committed contributions to a fragment, for its newest incarnation.
struct ClaimTotal {
  WorkerId worker;
  Incarnation incarnation;
  FragmentIndex fragment;
  uint64_t tokens = 0;
};

// State recovered from the ledger and the round log at start.
struct RecoveredJob {
  JobRecord job;
  PoolRecord pool;
  std::vector<FragmentHead> heads;  // by fragment
  uint64_t clock_step = 0;
  uint64_t rounds_committed = 0;  // of all fragments and epochs
  uint64_t tokens_committed = 0;  // of fragment 0, all epochs
  int64_t round_wall_nanos = 0;   // of the newest round; 0: none
  std::vector<ContributionHeader>
      accepted;                          // durable in open segments of the current epoch, by fragment, then worker name
  std::vector<ScreenedRecord> screened;  // accepted ones that the screens refused, by fragment, then worker name
  std::vector<ContributionHeader> committed;  // the newest committed one of each (fragment, worker), in that order
  std::vector<ClaimTotal> claims;             // since the newest rollback, by worker, then fragment
  std::vector<EvaluationRecord> evaluations;  // not undone by a rollback, by number
  std::vector<CheckpointRecord> checkpoints;  // by step
};
struct RecoveredState {
  BootNumber boot;  // already incremented durably
  CountersRecord counters;
  std::vector<RecoveredJob> jobs;     // by sequence
  std::vector<WorkerRecord> workers;  // by name
  std::vector<LeaseRecord> leases;    // by id
};

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_RECORDS_H_
