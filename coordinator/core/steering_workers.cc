// SPDX-License-Identifier: Apache-2.0
// Handles the operators' commands for workers: drain, cordon, evict, readmit.
#include "absl/strings/str_cat.h"
#include "coordinator/core/machine.h"

namespace atl {

void Machine::On(const WorkerSteered& e) {
  Member* member = fleet_.Find(e.worker);
  if (member == nullptr) {
    return Answer(e.request, absl::NotFoundError(absl::StrCat("no worker is named ", e.worker.value,
                                                              "; 'atoll worker list' shows who is")));
  }
  switch (e.action) {
    case WorkerAction::kDrain: return Answer(e.request, Drain(*member));
    case WorkerAction::kCordon: Cordon(*member); return Answer(e.request, absl::OkStatus());
    case WorkerAction::kEvict: break;
    case WorkerAction::kReadmit: return Answer(e.request, Readmit(*member));
  }
  // Evicted at once, whatever it does: its leases are returned, its later messages are refused, and
  // it stays out.
  if (!member->record.quarantine.empty()) {
    return Answer(e.request,
                  absl::FailedPreconditionError(absl::StrCat(QuarantineLine(member->record), " to let it back in")));
  }
  Quarantine(*member, Member::kEvicted);
  Answer(e.request, absl::OkStatus());
}

absl::Status Machine::Drain(Member& member) {
  const std::string& id = member.record.worker.value;
  if (!member.connection) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", id, " is not connected, so it cannot be asked to leave; 'atoll worker cordon ", id,
                     "' gives it no other job, 'atoll worker evict ", id, "' keeps it out"));
  }
  member.draining = true;
  SendTo(member, DrainRequested{kDrainAsked});
  Note(member.record.job, "worker drains", absl::StrCat("worker ", id, " was asked to leave"), {{"worker", id}});
  return absl::OkStatus();
}

// It keeps its present job, also over a reconnect, and gets no other.
void Machine::Cordon(Member& member) {
  const std::string& id = member.record.worker.value;
  if (member.record.cordoned) return;
  member.record.cordoned = true;
  fleet_.Touch(member.record.worker);
  Note(member.record.job, "worker cordoned",
       absl::StrCat("worker ", id, " was cordoned by an operator: it gets no other job"), {{"worker", id}});
}

absl::Status Machine::Readmit(Member& member) {
  const std::string& id = member.record.worker.value;
  if (member.record.quarantine.empty() && !member.record.cordoned) {
    return absl::FailedPreconditionError(absl::StrCat("worker ", id, " is neither quarantined nor cordoned"));
  }
  if (!member.record.quarantine.empty()) member.lost_at = now_;  // from now on it is remembered as long as any other
  member.record.quarantine.clear();
  member.record.cordoned = false;
  fleet_.Touch(member.record.worker);
  Note({}, "worker readmitted", absl::StrCat("worker ", id, " was readmitted by an operator"), {{"worker", id}});
  return absl::OkStatus();
}

}  // namespace atl
