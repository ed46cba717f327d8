// What operators do with workers: drain, cordon, evict, readmit.
#include "absl/strings/str_cat.h"
#include "coordinator/core/machine.h"

namespace atl {
namespace {

absl::Status NoSuchWorker(const WorkerId& worker) {
  return absl::NotFoundError(absl::StrCat("no worker is named ", worker.value, "; 'atoll worker list' shows who is"));
}

}  // namespace

void Machine::On(const WorkerDrained& e) {
  Member* member = fleet_.Find(e.worker);
  if (member == nullptr) return Answer(e.request, NoSuchWorker(e.worker));
  if (!member->connection) {
    return Answer(e.request,
                  absl::FailedPreconditionError(absl::StrCat("worker ", e.worker.value, " is not connected")));
  }
  member->draining = true;
  SendTo(*member, DrainRequested{"asked to leave by an operator"});
  Note(member->record.job, "worker drains", absl::StrCat("worker ", e.worker.value, " was asked to leave"),
       {{"worker", e.worker.value}});
  Answer(e.request, absl::OkStatus());
}

// It stays at the work that it has, over a reconnect too, and gets no other.
void Machine::On(const WorkerCordoned& e) {
  Member* member = fleet_.Find(e.worker);
  if (member == nullptr) return Answer(e.request, NoSuchWorker(e.worker));
  if (!member->record.cordoned) {
    member->record.cordoned = true;
    fleet_.Touch(e.worker);
    Note(member->record.job, "worker cordoned",
         absl::StrCat("worker ", e.worker.value, " was cordoned by an operator: it gets no other job"),
         {{"worker", e.worker.value}});
  }
  Answer(e.request, absl::OkStatus());
}

// At once, whatever it is at: its leases go back, what it sends from now on is refused, and it stays out.
void Machine::On(const WorkerEvicted& e) {
  Member* member = fleet_.Find(e.worker);
  if (member == nullptr) return Answer(e.request, NoSuchWorker(e.worker));
  if (!member->record.quarantine.empty()) {
    return Answer(e.request,
                  absl::FailedPreconditionError(absl::StrCat(QuarantineLine(member->record), " to let it back in")));
  }
  Quarantine(*member, "an operator evicted it");
  Answer(e.request, absl::OkStatus());
}

void Machine::On(const WorkerReadmitted& e) {
  Member* member = fleet_.Find(e.worker);
  if (member == nullptr) return Answer(e.request, NoSuchWorker(e.worker));
  if (member->record.quarantine.empty() && !member->record.cordoned) {
    return Answer(e.request, absl::FailedPreconditionError(
                                 absl::StrCat("worker ", e.worker.value, " is neither quarantined nor cordoned")));
  }
  if (!member->record.quarantine.empty())
    member->lost_at = now_;  // it is remembered for as long as any other from now on
  member->record.quarantine.clear();
  member->record.cordoned = false;
  fleet_.Touch(e.worker);
  Note({}, "worker readmitted", absl::StrCat("worker ", e.worker.value, " was readmitted by an operator"),
       {{"worker", e.worker.value}});
  Answer(e.request, absl::OkStatus());
}

}  // namespace atl
