#include "coordinator/core/fleet.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/plan/limits.h"

namespace atl {

std::string SilenceOf(const Member& member, Duration heartbeat_interval, Instant now) {
  if (member.lost) return "";
  if (!member.has_spoken) return "not heard since the coordinator has started";
  const Duration age = now - member.heard;
  if (age <= heartbeat_interval * 5 / 2) return "";
  return absl::StrCat("no heartbeat for ", age.ns / Seconds(1).ns, " s");
}

Member* Fleet::Find(const WorkerId& worker) {
  const auto it = members_.find(worker);
  return it == members_.end() ? nullptr : &it->second;
}

const Member* Fleet::Find(const WorkerId& worker) const {
  const auto it = members_.find(worker);
  return it == members_.end() ? nullptr : &it->second;
}

Member* Fleet::OnConnection(ConnectionId connection) {
  for (auto& [id, member] : members_) {
    if (member.connection == connection) return &member;
  }
  return nullptr;
}

Member& Fleet::Add(WorkerRecord record) {
  Member& member = members_[record.worker];
  member.record = std::move(record);
  return member;
}

size_t Fleet::Alive() const {
  return static_cast<size_t>(std::count_if(members_.begin(), members_.end(), [](const auto& entry) {
    const Member& member = entry.second;
    return !member.lost && (member.has_spoken || member.Assigned());
  }));
}

void Fleet::Forget(const WorkerId& worker) {
  members_.erase(worker);
  touched_.erase(worker);
  forgotten_.insert(worker);
}

void Fleet::TakeChanges(std::vector<LedgerRecord>& out) {
  for (const WorkerId& worker : forgotten_) out.push_back(WorkerForgotten{worker});
  forgotten_.clear();
  for (const WorkerId& worker : touched_) out.push_back(members_.at(worker).record);
  touched_.clear();
}

bool IsValidName(const std::string& name) {
  if (name.empty() || name.size() > limits::kNameBytes || name[0] == '-') return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
}

}  // namespace atl
