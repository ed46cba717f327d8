// SPDX-License-Identifier: Apache-2.0
// The members of the fleet. Membership has a clock, a lease has none. A silent member is lost. It keeps its
// leases for one more period of absence (ten minutes if it was not heard since the coordinator's start), and is
// then fenced: its record gets an incarnation that no worker has. Pure; owned by the engine thread.
//
//   connected -> silent for membership_timeout -> lost -> absent for one period -> fenced (leases go back)
//       ^------------- reconnects, same incarnation ----'          `-- reconnects: new incarnation
//
// After a long absence it is forgotten.
#ifndef ATOLL_COORDINATOR_CORE_FLEET_H_
#define ATOLL_COORDINATOR_CORE_FLEET_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/core/events.h"

namespace atl {

// The reason in an operator's drain request.
inline constexpr char kDrainAsked[] = "asked to leave by an operator";

// Within the assigned job.
enum class Stage { kNone, kFetching, kTraining };

struct Member {
  WorkerRecord record;                     // Fleet::Assign alone changes its job
  std::optional<ConnectionId> connection;  // only Fleet::Connect and Disconnect change it
  Instant heard;                           // newest message; the coordinator's start if there was none since
  bool has_spoken = false;                 // since the coordinator's start
  bool lost = false;                       // rounds do not wait for it
  bool left = false;                       // lost after its own Leaving
  Instant lost_at{};
  bool draining = false;  // gets no new work, and is asked to leave on each stream of its process
  Stage stage = Stage::kNone;
  Instant fetch_since{};       // start of the present stage, if that is kFetching
  uint32_t fetch_reports = 0;  // passed deadlines of that fetch
  JobId rests_from;            // the job it was taken off for its fetch; it may get it again from rests_until on
  Instant rests_until{};
  bool finished = false;    // in an ending job: has nothing more to contribute
  bool left_out = false;    // finished because it took too long: its uploads are not waited for either
  uint32_t unanswered = 0;  // assignments on this stream without a Ready, which has its position, so far
  uint64_t step = 0;        // newest job clock that it reported in this job
  Instant step_at{};        // time of that report
  void Reached(uint64_t reported, Instant now) {
    if (reported >= step) step = reported, step_at = now;
  }
  Heartbeat heartbeat;
  uint32_t pace_noted = 0;           // newest pace in the event log
  std::set<JobId> barred;            // jobs at which it failed since it connected
  std::optional<LeaseRequest> wish;  // a denied request, not repeated since
  std::string link_too_slow;         // the verdict on its link in this job (admission.h); empty: fast enough
  bool not_waited_for = false;       // it was informed that no round waits for it, because of its link

  bool Assigned() const { return !record.job.value.empty(); }
  static constexpr char kEvicted[] = "an operator evicted it";  // as the reason of its quarantine
  // It has no job and no operator's decision applies to it: only its name is left.
  bool Gone() const { return lost && !Assigned() && record.quarantine.empty() && !record.cordoned; }
  bool Trains(const JobId& job) const { return record.job == job && !record.evaluate_only; }
};

// Why the activity of a member that is not lost is unknown: it was not heard since the
// coordinator's start, or two heartbeats are overdue by at least half an interval. Empty: its
// heartbeats arrive, or it is lost. For people; decisions treat it as present until it is lost.
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
  // Members with a record that names the job, lost ones included, by name. The list does not change
  // when members change jobs.
  std::vector<Named<Member>> Of(const JobId& job);
  std::vector<Named<const Member>> Of(const JobId& job) const;
  Member& Add(WorkerRecord record);
  void Connect(Member& member, ConnectionId connection);
  void Disconnect(Member& member);
  // Sets the job in the record, which is written at the end of the step; an empty name: no job.
  void Assign(Member& member, const JobId& job);
  // Alive and assigned to train the job, by name.
  std::vector<WorkerId> TrainersOf(const JobId& job) const;
  // Those that train it now.
  uint32_t TrainingCount(const JobId& job) const;
  // Members that are not lost; excludes those only known from before the coordinator's start.
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
  // The newest worker that was refused because it has followed a newer state than this
  // coordinator's; cleared when it connects without one.
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
