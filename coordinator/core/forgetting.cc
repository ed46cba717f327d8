// SPDX-License-Identifier: Apache-2.0
// Workers that went away stay visible to people for a while and are then forgotten, so that neither
// the fleet nor the ledger grows with every name ever used. This is safe: the worker was fenced
// when it went, and numbers of incarnations and leases are never reused. If it comes back, it joins
// as a new worker, and its earlier leases are void.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/plan/limits.h"
#include "coordinator/core/machine.h"

namespace atl {

void Machine::ForgetMembers() {
  const auto long_gone = [this](const Member& member) { return now_ >= member.lost_at + limits::kGoneWorkerMemory; };
  std::vector<const Member*> gone;
  bool any = false;
  for (const auto& [id, member] : fleet_.members()) {
    if (!member.Gone()) continue;
    gone.push_back(&member);
    any = any || long_gone(member);
  }
  size_t excess = gone.size() - std::min<size_t>(gone.size(), limits::kGoneWorkers);
  if (!any && excess == 0) return;
  // After a restart, all have the same loss time; the one fenced first has the smaller incarnation.
  std::sort(gone.begin(), gone.end(), [](const Member* a, const Member* b) {
    return std::pair(a->lost_at, a->record.incarnation) < std::pair(b->lost_at, b->record.incarnation);
  });
  std::vector<std::pair<WorkerId, std::string>> forgotten;
  for (const Member* member : gone) {
    const bool is_long = long_gone(*member);
    if (!is_long && excess == 0) break;
    if (IsNeeded(member->record.worker)) continue;
    excess -= excess > 0 ? 1 : 0;
    forgotten.emplace_back(
        member->record.worker,
        is_long ? absl::StrCat("it is gone for ", limits::kGoneWorkerMemory.ns / Seconds(86'400).ns, " days")
                : absl::StrCat("more than ", limits::kGoneWorkers, " workers are gone, and it went first"));
  }
  for (const auto& [worker, why] : forgotten) Forget(worker, why);
}

// Whether a contribution to be merged, or a lease to be returned, names the worker.
bool Machine::IsNeeded(const WorkerId& worker) const {
  const auto needs = [&worker](const Run& run) {
    const bool rounds = std::any_of(run.rounds.begin(), run.rounds.end(), [&](const Round& round) {
      return round.accepted.contains(worker) || round.dropped.contains(worker);
    });
    const bool uploads = std::any_of(run.uploads.begin(), run.uploads.end(),
                                     [&](const auto& upload) { return upload.second.header.worker == worker; });
    return rounds || uploads || run.pool.HasLeaseOf(worker);
  };
  return std::any_of(runs_.begin(), runs_.end(), [&](const auto& entry) { return needs(entry.second); });
}

void Machine::Forget(const WorkerId& worker, const std::string& why) {
  for (auto& [id, run] : runs_) run.Forget(worker);
  fleet_.Forget(worker);
  Note({}, "worker forgotten",
       absl::StrCat("worker ", worker.value, " is forgotten: ", why, "; should it come back, it joins as a new one"),
       {{"worker", worker.value}});
}

}  // namespace atl
