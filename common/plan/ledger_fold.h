// SPDX-License-Identifier: Apache-2.0
// Folds ledger records, in commit order, into the state that a restart recovers (records.h). This
// defines the meaning of the ledger without storing the rounds. The in-memory ledger uses it; tests
// compare the SQLite ledger and the core with it. Pure.
#ifndef ATOLL_COMMON_PLAN_LEDGER_FOLD_H_
#define ATOLL_COMMON_PLAN_LEDGER_FOLD_H_

#include <map>
#include <utility>
#include <vector>

#include "common/plan/records.h"

namespace atl {

// Drops the evaluations that a rollback to `versions` invalidates: those of parameters with a
// fragment beyond `versions`.
void DropUndone(std::vector<EvaluationRecord>& evaluations, const VersionVector& versions);

class LedgerFold {
 public:
  // Upserts replace, appends add. Fails with ATOLL_CHECK when a record names a job without a
  // JobRecord. Records passed in one call may be in any order.
  void Apply(const std::vector<LedgerRecord>& transaction);

  // Leaves `accepted` of the jobs empty, because the round log provides it.
  RecoveredState State(BootNumber boot) const;

 private:
  struct Job {
    JobRecord record;
    PoolRecord pool;
    std::vector<FragmentHead> heads;
    uint64_t clock_step = 0;        // of the newest round, or of the checkpoint rolled back to
    uint64_t rounds_committed = 0;  // of all fragments and epochs
    uint64_t tokens_committed = 0;  // of fragment 0, of all epochs
    int64_t round_wall_nanos = 0;
    std::map<std::pair<FragmentIndex, WorkerId>, ContributionHeader> committed;  // of the current epoch
    std::map<std::pair<WorkerId, FragmentIndex>, ClaimTotal> claims;             // by worker and fragment
    std::map<std::pair<FragmentIndex, WorkerId>, ScreenedRecord> screened;       // of the open rounds
    std::vector<EvaluationRecord> evaluations;
    std::map<uint64_t, CheckpointRecord> checkpoints;
  };

  void Fold(const JobRecord& r);
  void Fold(const PoolRecord& r) { At(r.job).pool = r; }
  void Fold(const WorkerRecord& r) { workers_[r.worker] = r; }
  void Fold(const WorkerForgotten& r) { workers_.erase(r.worker); }
  void Fold(const LeaseRecord& r) { leases_[r.lease] = r; }
  void Fold(const LeaseClosed& r) { leases_.erase(r.lease); }
  void Fold(const RoundRecord& r);
  void Fold(const EvaluationRecord& r) { At(r.job).evaluations.push_back(r); }
  void Fold(const CheckpointRecord& r) { At(r.job).checkpoints[r.step] = r; }
  void Fold(const CheckpointDropped& r) { At(r.job).checkpoints.erase(r.step); }
  void Fold(const CountersRecord& r) { counters_ = r; }
  void Fold(const RollbackRecord& r);
  void Fold(const ScreenedRecord& r) { At(r.job).screened[{r.target.fragment, r.worker}] = r; }
  Job& At(const JobId& job);

  CountersRecord counters_;
  std::map<JobId, Job> jobs_;
  std::map<WorkerId, WorkerRecord> workers_;
  std::map<LeaseId, LeaseRecord> leases_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_LEDGER_FOLD_H_
