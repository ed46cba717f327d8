// SPDX-License-Identifier: Apache-2.0
// Folds ledger records, in commit order, into the state that a restart recovers (records.h). This
// defines the meaning of the ledger without storing the rounds. The in-memory ledger uses it; tests
// compare the SQLite ledger and the core with it. Pure.
#ifndef ATOLL_COMMON_PLAN_LEDGER_FOLD_H_
#define ATOLL_COMMON_PLAN_LEDGER_FOLD_H_

#include <map>
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
  void Fold(const JobRecord& r);
  void Fold(const PoolRecord& r) { At(r.job).pool = r; }
  void Fold(const WorkerRecord& r) { workers_[r.worker] = r; }
  void Fold(const WorkerForgotten& r) { workers_.erase(r.worker); }
  void Fold(const LeaseRecord& r) { leases_[r.lease] = r; }
  void Fold(const LeaseClosed& r) { leases_.erase(r.lease); }
  void Fold(const RoundRecord& r);
  void Fold(const EvaluationRecord& r) { At(r.job).evaluations.push_back(r); }
  void Fold(const CheckpointRecord& r);
  void Fold(const CheckpointDropped& r);
  void Fold(const CountersRecord& r) { counters_ = r; }
  void Fold(const RollbackRecord& r);
  void Fold(const ScreenedRecord& r);
  RecoveredJob& At(const JobId& job);

  CountersRecord counters_;
  std::map<JobId, RecoveredJob> jobs_;  // claims: of any incarnation
  std::map<WorkerId, WorkerRecord> workers_;
  std::map<LeaseId, LeaseRecord> leases_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_LEDGER_FOLD_H_
