// SPDX-License-Identifier: Apache-2.0
// The members of the fleet (member.h), found by name, connection and job, and the changes of their records. After a
// long absence a member is forgotten. Pure; owned by the engine thread.
#ifndef ATOLL_COORDINATOR_CORE_FLEET_H_
#define ATOLL_COORDINATOR_CORE_FLEET_H_

#include <map>
#include <set>
#include <vector>

#include "coordinator/core/member.h"

namespace atl {

// For loops: for (const auto& [id, member] : ...).
template <typename M>
struct Named {
  const WorkerId& id;
  M& member;
};

class Fleet {
 public:
  Member* Find(const WorkerId& worker);
  const Member* Find(const WorkerId& worker) const;
  Member* OnConnection(ConnectionId connection);
  // Members with a record that names the job, lost ones included, by name. The list does not change
  // when members change jobs.
  std::vector<Named<Member>> Of(const JobId& job);
  std::vector<Named<const Member>> Of(const JobId& job) const;
  Member& Add(WorkerRecord record);
  void Connect(Member& member, ConnectionId connection);
  void Disconnect(Member& member);
  // Sets the job in the record, which is written at the end of the step; an empty name: no job.
  void Assign(Member& member, const JobId& job);
  // Members that are assigned to train the job and are neither lost nor draining, by name.
  std::vector<WorkerId> TrainersOf(const JobId& job) const;
  // The number of members, draining ones too, that are not lost, have the parameters and train the job now.
  uint32_t TrainingCount(const JobId& job) const;
  // Members that are not lost; excludes those without a job that were not heard since the coordinator's start.
  size_t Alive() const;
  std::map<WorkerId, Member>& members() { return members_; }
  const std::map<WorkerId, Member>& members() const { return members_; }

  // Writes the member's record at the end of the step.
  void Touch(const WorkerId& worker) {
    touched_.insert(worker);
    ++touches_;
  }
  // The total number of record changes.
  uint64_t touches() const { return touches_; }
  // Removes an existing member and its record. A member added later with this name is a new one.
  void Forget(const WorkerId& worker);
  void TakeChanges(std::vector<LedgerRecord>& out);
  // The newest worker that was refused because it has followed a newer state than this coordinator's; cleared
  // when that worker connects again without one.
  struct Ahead {
    WorkerId worker;
    BootNumber boot;  // 0: none
    Instant at{};     // it retries within seconds
  };
  const Ahead& ahead() const { return ahead_; }
  void TurnedAway(Ahead ahead) { ahead_ = std::move(ahead); }
  // Fails an ATOLL_CHECK if the indexes are inconsistent.
  void CheckInvariants() const;

 private:
  void PutInto(Member& member, const JobId& job);

  std::map<WorkerId, Member> members_;
  std::map<ConnectionId, Member*> by_connection_;
  std::map<JobId, std::vector<Member*>> by_job_;  // by name; no empty lists
  std::set<WorkerId> touched_, forgotten_;
  uint64_t touches_ = 0;
  Ahead ahead_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_FLEET_H_
