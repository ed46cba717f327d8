// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/leases.h"

#include <algorithm>

#include "common/base/check.h"

namespace atl {
namespace {

uint64_t SizeOf(const std::vector<SampleRange>& ranges) {
  uint64_t total = 0;
  for (const SampleRange& r : ranges) total += r.size();
  return total;
}

}  // namespace

LeasePool::LeasePool(PoolRecord record, uint64_t dataset_samples)
    : record_(std::move(record)), dataset_samples_(dataset_samples) {}

void LeasePool::Restore(const LeaseRecord& lease) { leases_.emplace(lease.lease, lease); }

void LeasePool::Touch(LeaseId id) {
  touched_.insert(id);
  TouchPool();
}

void LeasePool::TouchPool() {
  pool_touched_ = true;
  ++touches_;
}

SampleRange LeasePool::TakeReturned(uint64_t samples, SampleRange within) {
  auto& free = record_.returned;
  for (auto r = free.begin(); r != free.end(); ++r) {
    const uint64_t begin = std::max(r->begin, within.begin), most = std::min(r->end, within.end);
    if (begin >= most) continue;
    const SampleRange taken{begin, begin + std::min(samples, most - begin)};
    const SampleRange before{r->begin, begin}, after{taken.end, r->end};
    r = free.erase(r);
    if (after.size() > 0) r = free.insert(r, after);
    if (before.size() > 0) free.insert(r, before);
    return taken;
  }
  return {};
}

std::optional<LeaseRecord> LeasePool::Grant(LeaseId id, const WorkerRecord& worker, uint64_t request, uint64_t samples,
                                            SampleRange within) {
  ATOLL_CHECK(samples >= 1 && !leases_.contains(id), "a lease needs a new id and at least one sample");
  SampleRange range = TakeReturned(samples, within);
  if (range.size() == 0 && within.begin <= record_.frontier && within.end > record_.frontier) {
    const uint64_t end = std::min(dataset_samples_, within.end);
    range = {record_.frontier, record_.frontier + std::min(samples, end - record_.frontier)};
    record_.frontier = range.end;
  }
  if (range.size() == 0) return std::nullopt;
  LeaseRecord lease;
  lease.lease = id;
  lease.job = record_.job;
  lease.worker = worker.worker;
  lease.incarnation = worker.incarnation;
  lease.range = range;
  lease.consumed_to = range.begin;
  lease.request = request;
  leases_.emplace(id, lease);
  Touch(id);
  return lease;
}

void LeasePool::Consume(LeaseId id, uint64_t cursor) {
  const auto it = leases_.find(id);
  if (it == leases_.end() || cursor <= it->second.consumed_to) return;
  ATOLL_CHECK(cursor <= it->second.range.end, "I12: a committed contribution reaches beyond its lease");
  record_.consumed += cursor - it->second.consumed_to;
  it->second.consumed_to = cursor;
  Touch(id);
  CloseIfEmpty(id);
}

void LeasePool::Return(LeaseId id, uint64_t keep_to) {
  const auto it = leases_.find(id);
  if (it == leases_.end()) return;
  LeaseRecord& lease = it->second;
  const uint64_t end = std::min(lease.range.end, std::max(keep_to, lease.consumed_to));
  if (end == lease.range.end && lease.revoked) return;
  GiveBack({end, lease.range.end});
  lease.range.end = end;
  lease.revoked = true;
  Touch(id);
  CloseIfEmpty(id);
}

void LeasePool::CloseIfEmpty(LeaseId id) {
  const auto it = leases_.find(id);
  if (it->second.consumed_to == it->second.range.end) leases_.erase(it);
}

void LeasePool::GiveBack(SampleRange range) {
  if (range.size() == 0) return;
  auto& free = record_.returned;
  auto at = std::lower_bound(free.begin(), free.end(), range);
  at = free.insert(at, range);
  if (at + 1 != free.end() && at->end == (at + 1)->begin) {
    at->end = (at + 1)->end;
    at = free.erase(at + 1) - 1;
  }
  if (at != free.begin() && (at - 1)->end == at->begin) {
    (at - 1)->end = at->end;
    free.erase(at);
  }
}

uint64_t LeasePool::Abandon(SampleRange range) {
  std::vector<SampleRange> kept;
  uint64_t taken = 0;
  for (const SampleRange& r : record_.returned) {
    const uint64_t begin = std::clamp(range.begin, r.begin, r.end);
    const uint64_t end = std::clamp(range.end, begin, r.end);
    if (r.begin < begin) kept.push_back({r.begin, begin});
    if (end < r.end) kept.push_back({end, r.end});
    taken += end - begin;
  }
  if (taken == 0) return 0;
  record_.returned = std::move(kept);
  record_.abandoned += taken;
  TouchPool();
  return taken;
}

void LeasePool::RollBack(uint64_t frontier) {
  ATOLL_CHECK(leases_.empty(), "a pool with open leases cannot be rolled back");
  ATOLL_CHECK(frontier <= record_.frontier, "a rollback cannot lease ahead");
  std::vector<SampleRange> below;
  for (SampleRange r : record_.returned) {
    r.end = std::min(r.end, frontier);
    if (r.begin < r.end) below.push_back(r);
  }
  record_.returned = std::move(below);
  record_.frontier = frontier;
  const uint64_t used = frontier - SizeOf(record_.returned);
  // The positions of abandoned samples are not recorded: as many as fit count as below the frontier (I12).
  record_.abandoned = std::min(record_.abandoned, used);
  record_.consumed = used - record_.abandoned;
  TouchPool();
}

const LeaseRecord* LeasePool::Find(LeaseId id) const {
  const auto it = leases_.find(id);
  return it == leases_.end() ? nullptr : &it->second;
}

const LeaseRecord* LeasePool::FindRequest(const WorkerRecord& worker, uint64_t request) const {
  for (const auto& [id, lease] : leases_) {
    if (lease.worker == worker.worker && lease.incarnation == worker.incarnation && lease.request == request &&
        !lease.revoked) {
      return &lease;
    }
  }
  return nullptr;
}

std::vector<LeaseId> LeasePool::HeldBy(const WorkerId& worker) const {
  std::vector<LeaseId> held;
  for (const auto& [id, lease] : leases_) {
    if (lease.worker == worker && !lease.revoked) held.push_back(id);
  }
  return held;
}

std::vector<LeaseId> LeasePool::Revoked() const {
  std::vector<LeaseId> out;
  for (const auto& [id, lease] : leases_) {
    if (lease.revoked) out.push_back(id);
  }
  return out;
}

bool LeasePool::HasLeaseOf(const WorkerId& worker) const {
  return std::any_of(leases_.begin(), leases_.end(), [&](const auto& entry) { return entry.second.worker == worker; });
}

std::set<WorkerId> LeasePool::Holders(const std::map<LeaseId, uint64_t>& cursors) const {
  std::set<WorkerId> holders;
  for (const auto& [id, lease] : leases_) {
    const auto cursor = cursors.find(id);
    if (!lease.revoked && (cursor == cursors.end() || cursor->second < lease.range.end)) holders.insert(lease.worker);
  }
  return holders;
}

uint64_t LeasePool::Outstanding(const WorkerId& worker) const {
  uint64_t total = 0;
  for (const auto& [id, lease] : leases_) {
    if (lease.worker == worker && !lease.revoked) total += lease.range.end - lease.consumed_to;
  }
  return total;
}

uint64_t LeasePool::Unleased() const { return dataset_samples_ - record_.frontier + SizeOf(record_.returned); }

BalanceView LeasePool::Balance() const {
  BalanceView view;
  view.dataset = dataset_samples_;
  view.unleased = Unleased();
  for (const auto& [id, lease] : leases_) view.leased += lease.range.end - lease.consumed_to;
  view.consumed = record_.consumed;
  view.abandoned = record_.abandoned;
  return view;
}

void LeasePool::TakeChanges(std::vector<LedgerRecord>& out) {
  for (const LeaseId id : touched_) {
    if (const LeaseRecord* lease = Find(id)) {
      out.push_back(*lease);
    } else {
      out.push_back(LeaseClosed{id});
    }
  }
  if (pool_touched_) out.push_back(record_);
  touched_.clear();
  pool_touched_ = false;
}

void LeasePool::CheckInvariants() const {
  std::vector<SampleRange> owned = record_.returned;
  for (const auto& [id, lease] : leases_) {
    ATOLL_CHECK(lease.range.begin <= lease.consumed_to && lease.consumed_to < lease.range.end,
                "I12: an open lease holds at least one sample that is not consumed");
    owned.push_back({lease.consumed_to, lease.range.end});
  }
  std::sort(owned.begin(), owned.end());
  for (size_t i = 0; i < owned.size(); ++i) {
    ATOLL_CHECK(owned[i].begin < owned[i].end && owned[i].end <= record_.frontier, "I9: a range beyond the frontier");
    ATOLL_CHECK(i == 0 || owned[i - 1].end <= owned[i].begin, "I9: a sample has two holders");
  }
  const BalanceView b = Balance();
  ATOLL_CHECK(record_.frontier <= dataset_samples_, "I12: leased beyond the dataset");
  ATOLL_CHECK(b.unleased + b.leased + b.consumed + b.abandoned == b.dataset,
              "I12: unleased + leased + consumed + abandoned = dataset");
}

}  // namespace atl
