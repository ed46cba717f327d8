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
  // Upserts replace, appends add. Folds the JobRecords of the transaction first, then the others in order. Ends the
  // program (ATOLL_CHECK) when a record names a job without a JobRecord, or a round skips a version.
  void Apply(const std::vector<LedgerRecord>& transaction);

  // Leaves `accepted` of the jobs empty, because only the round log has the accepted contributions.
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
  std::map<JobId, RecoveredJob> jobs_;  // `claims` may be of an older incarnation: State() omits those
  std::map<WorkerId, WorkerRecord> workers_;
  std::map<LeaseId, LeaseRecord> leases_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_LEDGER_FOLD_H_
