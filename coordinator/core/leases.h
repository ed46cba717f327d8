// SPDX-License-Identifier: Apache-2.0
// The samples of one job: never leased, leased to a worker, returned, in a committed contribution, or abandoned
// (docs/design.md section 7, "Data"). At every moment unleased + leased + consumed + abandoned = dataset (I12), and
// no sample is in two leases (I9). Positions are those of the job's data order, in samples. Pure; owned by the engine
// thread.
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
  // Restores a lease from the ledger, which the record's frontier already includes.
  void Restore(const LeaseRecord& lease);

  // A contiguous range of at most `samples` inside `within`: from the lowest returned range, else
  // from the frontier. Nothing if there is none. Requires samples >= 1 and a new id.
  std::optional<LeaseRecord> Grant(LeaseId id, const WorkerRecord& worker, uint64_t request, uint64_t samples,
                                   SampleRange within = {0, UINT64_MAX});
  // Samples before `cursor` are in a committed contribution. A closed lease or an older cursor changes nothing.
  void Consume(LeaseId id, uint64_t cursor);
  // Returns everything at and after max(keep_to, consumed_to) to the pool. The part between consumed_to and
  // keep_to belongs to accepted contributions: it stays, revoked, until they are committed or left out.
  // Repeating the call with the same or a lower keep_to is harmless. An unknown lease changes nothing.
  void Return(LeaseId id, uint64_t keep_to);
  // Abandons those samples of the range that were leased and returned to the pool. Returns their number.
  uint64_t Abandon(SampleRange range);
  // Marks everything at or after `frontier` as never leased. Samples below it that were leased and not returned count
  // as consumed, also those of contributions after the checkpoint. Requires no open lease.
  void RollBack(uint64_t frontier);

  const LeaseRecord* Find(LeaseId id) const;
  // The lease granted for this request; null if there is none.
  const LeaseRecord* FindRequest(const WorkerRecord& worker, uint64_t request) const;
  // Leases the worker may train on, ascending.
  std::vector<LeaseId> HeldBy(const WorkerId& worker) const;
  std::vector<LeaseId> Revoked() const;
  bool HasLeaseOf(const WorkerId& worker) const;  // includes revoked ones
  // Workers with an unrevoked lease that extends beyond its consumed part and beyond its cursor in `cursors`.
  std::set<WorkerId> Holders(const std::map<LeaseId, uint64_t>& cursors) const;
  // Samples of the worker's unrevoked leases that are in no committed contribution yet.
  uint64_t Outstanding(const WorkerId& worker) const;
  uint64_t Unleased() const;
  BalanceView Balance() const;
  const PoolRecord& record() const { return record_; }

  // The total number of changes to the pool.
  uint64_t touches() const { return touches_; }
  // Appends all changes since the last call: leases, closed leases, the pool itself.
  void TakeChanges(std::vector<LedgerRecord>& out);
  // Fails an ATOLL_CHECK unless I9 and I12 hold.
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
