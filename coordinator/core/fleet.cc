// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/fleet.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace atl {
namespace {

template <typename M>
std::vector<Named<M>> Listed(const std::map<JobId, std::vector<Member*>>& by_job, const JobId& job) {
  std::vector<Named<M>> members;
  const auto it = by_job.find(job);
  if (it == by_job.end()) return members;
  members.reserve(it->second.size());
  for (Member* member : it->second) members.push_back({member->record().worker, *member});
  return members;
}

bool IsBefore(const Member* member, const WorkerId& worker) { return member->record().worker < worker; }

}  // namespace

Member* Fleet::Find(const WorkerId& worker) {
  const auto it = members_.find(worker);
  return it == members_.end() ? nullptr : &it->second;
}

const Member* Fleet::Find(const WorkerId& worker) const {
  const auto it = members_.find(worker);
  return it == members_.end() ? nullptr : &it->second;
}

Member* Fleet::OnConnection(ConnectionId connection) {
  const auto it = by_connection_.find(connection);
  return it == by_connection_.end() ? nullptr : it->second;
}

std::vector<Named<Member>> Fleet::Of(const JobId& job) { return Listed<Member>(by_job_, job); }
std::vector<Named<const Member>> Fleet::Of(const JobId& job) const { return Listed<const Member>(by_job_, job); }

std::vector<WorkerId> Fleet::TrainersOf(const JobId& job) const {
  std::vector<WorkerId> trainers;
  for (const auto& [id, member] : Of(job)) {
    if (member.Trains(job) && !member.lost() && !member.draining()) trainers.push_back(id);
  }
  return trainers;
}

uint32_t Fleet::TrainingCount(const JobId& job) const {
  uint32_t count = 0;
  for (const auto& [id, member] : Of(job)) {
    count += member.Trains(job) && !member.lost() && member.stage() == Stage::kTraining ? 1 : 0;
  }
  return count;
}

Member& Fleet::Add(WorkerRecord record) {
  const WorkerId worker = record.worker;
  const JobId job = std::exchange(record.job, {});
  Member& member = members_.try_emplace(worker, std::move(record)).first->second;
  if (!job.value.empty()) PutInto(member, job);
  return member;
}

void Fleet::Connect(Member& member, ConnectionId connection) {
  Disconnect(member);
  member.Connect(connection);
  by_connection_.insert_or_assign(connection, &member);
  if (ahead_.worker == member.record().worker) ahead_ = {};
}

void Fleet::Disconnect(Member& member) {
  if (member.connection()) by_connection_.erase(*member.connection());
  member.Disconnect();
}

void Fleet::Assign(Member& member, const JobId& job) {
  PutInto(member, job);
  Touch(member.record().worker);
}

void Fleet::PutInto(Member& member, const JobId& job) {
  if (const auto before = by_job_.find(member.record().job); before != by_job_.end()) {
    std::erase(before->second, &member);
    if (before->second.empty()) by_job_.erase(before);
  }
  member.SetJob(job);
  if (job.value.empty()) return;
  std::vector<Member*>& members = by_job_[job];
  members.insert(std::lower_bound(members.begin(), members.end(), member.record().worker, IsBefore), &member);
}

size_t Fleet::Alive() const {
  return static_cast<size_t>(std::count_if(members_.begin(), members_.end(), [](const auto& entry) {
    const Member& member = entry.second;
    return !member.lost() && (member.has_spoken() || member.Assigned());
  }));
}

void Fleet::Forget(const WorkerId& worker) {
  Member& member = members_.at(worker);
  Disconnect(member);
  PutInto(member, {});
  members_.erase(worker);
  touched_.erase(worker);
  forgotten_.insert(worker);
}

void Fleet::TakeChanges(std::vector<LedgerRecord>& out) {
  for (const WorkerId& worker : forgotten_) out.push_back(WorkerForgotten{worker});
  forgotten_.clear();
  for (const WorkerId& worker : touched_) out.push_back(members_.at(worker).record());
  touched_.clear();
}

void Fleet::CheckInvariants() const {
  size_t connected = 0, assigned = 0;
  for (const auto& [id, member] : members_) {
    if (member.connection()) {
      const auto at = by_connection_.find(*member.connection());
      ATOLL_CHECK(at != by_connection_.end() && at->second == &member, "a member is not found by its connection");
      ++connected;
    }
    if (member.Assigned()) {
      const auto of = by_job_.find(member.record().job);
      ATOLL_CHECK(of != by_job_.end() && std::count(of->second.begin(), of->second.end(), &member) == 1,
                  "a member is not found by its job");
      ++assigned;
    }
  }
  size_t found = 0;
  for (const auto& [job, members] : by_job_) found += members.size();
  ATOLL_CHECK(connected == by_connection_.size() && assigned == found, "a member is found where it is not any more");
}

}  // namespace atl
