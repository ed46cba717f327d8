// SPDX-License-Identifier: Apache-2.0
// Who is there. Membership has a clock, a lease has none: a member is lost after a silence, keeps its leases for one
// more period of absence (ten minutes where it was not heard since the coordinator has started), and is then fenced:
// its record gets an incarnation that nobody holds. Pure; owned by the engine thread.
//
//   connected -> silent for membership_timeout -> lost -> absent for one period -> fenced (leases go back)
//       ^------------- reconnects, same incarnation ----'          `-- reconnects: new incarnation
//
// Gone for long, it is forgotten (forgetting.cc).
#ifndef ATOLL_COORDINATOR_CORE_FLEET_H_
#define ATOLL_COORDINATOR_CORE_FLEET_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/core/events.h"

namespace atl {

// Why an operator's drain asks a worker to leave.
inline constexpr char kDrainAsked[] = "asked to leave by an operator";

// Within the assigned job.
enum class Stage { kNone, kFetching, kTraining };

struct Member {
  WorkerRecord record;                     // its job is changed by Fleet::Assign alone
  std::optional<ConnectionId> connection;  // changed by Fleet::Connect and Disconnect alone
  Instant heard;            // newest sign of life; the start of the coordinator where there was none since
  bool has_spoken = false;  // since the start of the coordinator
  bool lost = false;        // not waited for any more
  bool left = false;        // lost, of its own accord
  Instant lost_at{};
  bool draining = false;  // gets no new work, and is asked to leave on each stream of its process
  Stage stage = Stage::kNone;
  Instant fetch_since{};       // of its present stage, where that is kFetching
  uint32_t fetch_reports = 0;  // deadlines of that fetch that have passed
  JobId rests_from;            // it was taken off this job for its fetch, and gets it again from rests_until on
  Instant rests_until{};
  bool finished = false;    // in an ending job: has nothing more to contribute
  bool left_out = false;    // finished, since it took too long: what it sends is not waited for either
  uint32_t unanswered = 0;  // assignments on this stream whose Ready, which says where it stands, is still to come
  uint64_t step = 0;        // newest job clock it reported in this job
  Instant step_at{};        // when
  void Reached(uint64_t reported, Instant now) {
    if (reported >= step) step = reported, step_at = now;
  }
  Heartbeat heartbeat;
  uint32_t pace_noted = 0;           // newest pace written to the event log
  std::set<JobId> barred;            // it failed at these since it connected
  std::optional<LeaseRequest> wish;  // denied and not asked again since
  std::string link_too_slow;         // the verdict on its link in this job (admission.h); empty: it is fast enough
  bool not_waited_for = false;       // it is told that no round waits for it, for that reason

  bool Assigned() const { return !record.job.value.empty(); }
  static constexpr char kEvicted[] = "an operator evicted it";  // as reason of its quarantine
  // It holds nothing and no operator's word is on it: there is nothing but its name.
  bool Gone() const { return lost && !Assigned() && record.quarantine.empty() && !record.cordoned; }
  bool Trains(const JobId& job) const { return record.job == job && !record.evaluate_only; }
};

// Why nobody knows what a member does that is not lost yet: it was never heard since the coordinator has started, or
// two heartbeats are overdue by half an interval and more. Empty: its heartbeats come, or it is lost. For people;
// decisions take it as there until it is lost.
std::string SilenceOf(const Member& member, Duration heartbeat_interval, Instant now);

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
  // Whose record names the job, lost ones included, by name. The list stays as it is when members change their job.
  std::vector<Named<Member>> Of(const JobId& job);
  std::vector<Named<const Member>> Of(const JobId& job) const;
  Member& Add(WorkerRecord record);
  void Connect(Member& member, ConnectionId connection);
  void Disconnect(Member& member);
  // Into the record, which is written at the end of the step; no name: of no job.
  void Assign(Member& member, const JobId& job);
  // Not lost; nor one that is only remembered from before the coordinator started.
  size_t Alive() const;
  std::map<WorkerId, Member>& members() { return members_; }
  const std::map<WorkerId, Member>& members() const { return members_; }

  // Writes the member's record at the end of the step.
  void Touch(const WorkerId& worker) {
    touched_.insert(worker);
    ++touches_;
  }
  // How often a record has changed, ever.
  uint64_t touches() const { return touches_; }
  // Its member and record go; it must be there. One that is added under that name is another.
  void Forget(const WorkerId& worker);
  void TakeChanges(std::vector<LedgerRecord>& out);
  // The newest worker that was turned away because it has followed a newer state than this coordinator has, until it
  // connects without that.
  struct Ahead {
    WorkerId worker;
    BootNumber boot;  // 0: there is none
    Instant at{};     // it tries again within seconds
  };
  const Ahead& ahead() const { return ahead_; }
  void TurnedAway(Ahead ahead) { ahead_ = std::move(ahead); }
  // Breaks with ATOLL_CHECK when members are not found where they are.
  void CheckInvariants() const;

 private:
  void PutInto(Member& member, const JobId& job);

  std::map<WorkerId, Member> members_;
  std::map<ConnectionId, Member*> by_connection_;
  std::map<JobId, std::vector<Member*>> by_job_;  // by name; none is empty
  std::set<WorkerId> touched_, forgotten_;
  uint64_t touches_ = 0;
  Ahead ahead_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_FLEET_H_
