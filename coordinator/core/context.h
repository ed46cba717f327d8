// SPDX-License-Identifier: Apache-2.0
// The state that the coordinator (Machine) and its jobs share: the fleet, the counters, the time, and the effects of
// the present step. Pure; owned by the engine thread.
#ifndef ATOLL_COORDINATOR_CORE_CONTEXT_H_
#define ATOLL_COORDINATOR_CORE_CONTEXT_H_

#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "coordinator/core/checkpoints.h"
#include "coordinator/core/core.h"
#include "coordinator/core/fleet.h"

namespace atl {

struct CoreContext {
  CoreOptions options;
  BootNumber boot;
  CountersRecord counters;
  bool counters_touched = false;  // `counters` is written at the end of the step
  Fleet fleet;
  bool disk_low = false;
  Instant now{};
  int64_t wall_nanos = 0;
  Effects out;
  // Functions that Machine sets, because it knows all jobs.
  std::function<const JobId*(const JobId& job, uint64_t checkpoint)> heir_of;  // pending job that needs it, or null
  std::function<void(const JobSpec& spec)> begun;  // to call when a pending job has its parameters, or ends without
  std::function<void(Member& member, const std::string& why)> quarantine;

  void SendTo(const Member& member, CoordinatorMessage message) {
    if (member.connection()) out.sends.push_back({*member.connection(), std::move(message)});
  }
  void SendToJob(const JobId& job, const CoordinatorMessage& message) {
    for (const auto& [id, member] : fleet.Of(job)) SendTo(member, message);
  }
  void Disconnect(Member& member) {
    if (member.connection()) out.closes.push_back({*member.connection()});
    fleet.Disconnect(member);
  }
  Incarnation NewIncarnation() {
    counters_touched = true;
    return Incarnation{counters.next_incarnation++};
  }
  void Free(Member& member) {  // takes it off its job, and voids its leases so far
    fleet.Assign(member, {});
    member.VoidLeasesBefore(LeaseId{counters.next_lease});
    member.LeaveJob();
  }
  void Note(const JobId& job, std::string kind, std::string text, std::map<std::string, std::string> fields = {}) {
    out.notes.push_back({job, std::move(kind), std::move(text), std::move(fields)});
  }
  void Add(CheckpointEffects effects) {
    std::move(effects.records.begin(), effects.records.end(), std::back_inserter(out.records));
    std::move(effects.tasks.begin(), effects.tasks.end(), std::back_inserter(out.tasks));
  }
  void Answer(RequestId request, absl::Status status, const JobId& job = {}) {
    out.answers.push_back({request, std::move(status), job});
  }
  void Verdict(UploadId upload, UploadDecision decision, absl::Status status) {
    out.verdicts.push_back({upload, decision, std::move(status)});
  }
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_CONTEXT_H_
