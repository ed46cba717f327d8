// SPDX-License-Identifier: Apache-2.0
// The samples of one job: which were never leased, which are leased to whom, which are free again, which are in a
// committed contribution (docs/design.md section 7, "Data"). At every moment unleased + leased + consumed + abandoned =
// dataset (I12), and no sample is in two leases (I9). Positions are those of the job's data order, in samples. Pure;
// owned by the engine thread.
#ifndef ATOLL_COORDINATOR_CORE_LEASES_H_
#define ATOLL_COORDINATOR_CORE_LEASES_H_

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/plan/records.h"
#include "coordinator/core/core.h"

namespace atl {

class LeasePool {
 public:
  LeasePool(PoolRecord record, uint64_t dataset_samples);
  // Takes over a lease found in the ledger. It is already counted in the record's frontier.
  void Restore(const LeaseRecord& lease);

  // A contiguous range of at most `samples` inside `within`: from the lowest returned range, else from the frontier.
  // Nothing when there is none. Requires samples >= 1 and an id never used before.
  std::optional<LeaseRecord> Grant(LeaseId id, const WorkerRecord& worker, uint64_t request, uint64_t samples,
                                   SampleRange within = {0, UINT64_MAX});
  // Samples before `cursor` are in a committed contribution. A closed lease or an older cursor changes nothing.
  void Consume(LeaseId id, uint64_t cursor);
  // Takes back everything at and beyond max(keep_to, consumed_to). What lies between consumed_to and keep_to belongs to
  // accepted contributions and stays, revoked, until they are committed or left out. Repeating it with the same or a
  // lower keep_to is harmless. An unknown lease changes nothing.
  void Return(LeaseId id, uint64_t keep_to);
  // Gives up samples of the range that are free at the moment. Returns how many.
  uint64_t Abandon(SampleRange range);
  // Everything at or beyond `frontier` was never leased again; samples below it that were consumed after that point
  // stay consumed (at most what was leased there). Requires no open lease.
  void RollBack(uint64_t frontier);

  const LeaseRecord* Find(LeaseId id) const;
  // The lease that answered this request, null when there is none.
  const LeaseRecord* FindRequest(const WorkerRecord& worker, uint64_t request) const;
  // Leases the worker may train on, ascending.
  std::vector<LeaseId> HeldBy(const WorkerId& worker) const;
  std::vector<LeaseId> Revoked() const;
  bool HasLeaseOf(const WorkerId& worker) const;  // revoked ones as well
  // Workers with a lease that is not revoked and reaches beyond what is consumed and beyond its cursor in `cursors`.
  std::set<WorkerId> Holders(const std::map<LeaseId, uint64_t>& cursors) const;
  // Samples leased to the worker and not yet in a committed contribution.
  uint64_t Outstanding(const WorkerId& worker) const;
  uint64_t Unleased() const;
  bool AnyLease() const { return !leases_.empty(); }
  BalanceView Balance() const;
  const PoolRecord& record() const { return record_; }

  // How often the pool has changed, ever.
  uint64_t touches() const { return touches_; }
  // Appends what changed since the last call: leases, closed leases, the pool itself.
  void TakeChanges(std::vector<LedgerRecord>& out);
  // Breaks with ATOLL_CHECK when I9 or I12 does not hold.
  void CheckInvariants() const;

 private:
  SampleRange TakeReturned(uint64_t samples, SampleRange within);
  void GiveBack(SampleRange range);
  void Touch(LeaseId id);
  void TouchPool();
  void CloseIfEmpty(LeaseId id);

  PoolRecord record_;
  uint64_t dataset_samples_;
  std::map<LeaseId, LeaseRecord> leases_;
  std::set<LeaseId> touched_;
  bool pool_touched_ = false;
  uint64_t touches_ = 0;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_LEASES_H_
