// SPDX-License-Identifier: Apache-2.0
// One member of the fleet, as a machine of its own: its connection and presence, its durable record, and its part in
// the job that it is assigned to. Membership has a clock, a lease has none. Pure; owned by the engine thread.
//
//   CONNECTED -- silent for membership_timeout: Lose --> LOST -- absent for one period: Fence --> FENCED
//       ^------- Return, same incarnation --------------'  `-- Leave: LEFT      `-- Return, Join: new incarnation
//
// A lost member keeps its leases for one more period (ten minutes if it was not heard since the coordinator's start),
// or until the pool is empty. Fencing gives its record an incarnation that no worker has. Within the assigned job:
//
//   kNone -- Fetch --> kFetching -- Train --> kTraining -- Finish, LeaveOut: finished; Continue: not finished
//     ^----- LeaveJob -----'--------------------'
//
// A function here changes this member alone. The parent (job.h) sends messages, returns leases and opens rounds,
// and marks the record as changed (Fleet::Touch).
#ifndef ATOLL_COORDINATOR_CORE_MEMBER_H_
#define ATOLL_COORDINATOR_CORE_MEMBER_H_

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "coordinator/core/events.h"

namespace atl {

// The reason in an operator's drain request.
inline constexpr char kDrainAsked[] = "asked to leave by an operator";

// Within the assigned job.
enum class Stage { kNone, kFetching, kTraining };

class Member {
 public:
  static constexpr char kEvicted[] = "an operator evicted it";  // as the reason of its quarantine

  explicit Member(WorkerRecord record) : record_(std::move(record)) {}

  // ---- called by Fleet alone, which has indexes of them
  void Connect(ConnectionId connection) { connection_ = connection; }
  void Disconnect() { connection_.reset(); }
  void SetJob(const JobId& job) { record_.job = job; }

  // ---- presence
  void Recover(Instant now);               // at the coordinator's start
  void BeginStream(uint64_t start_nonce);  // a draining process stays draining, a new one does not
  void Return(Instant now);
  void Hear(Instant now) { heard_ = now; }  // any message
  void Lose(Instant now);
  void Leave(Instant now);                  // lost after its own Leaving
  void Excuse(Duration time, Instant now);  // does not count this time, until now: the coordinator did not run
  void Drain() { draining_ = true; }

  // ---- the record
  void Join(const Hello& hello, Incarnation incarnation);
  void Fence(Incarnation incarnation) { record_.incarnation = incarnation; }
  void VoidLeasesBefore(LeaseId lease) { record_.leases_from = lease; }
  void Quarantine(const std::string& why) { record_.quarantine = why; }
  void Cordon() { record_.cordoned = true; }
  void Readmit(Instant now);  // ends quarantine and cordon; a quarantined member counts as lost since now

  // ---- its part in the job
  void Fetch(Instant now);
  void RecoverStage(bool trains) { stage_ = trains ? Stage::kTraining : Stage::kFetching; }
  void Train();
  void LeaveJob();
  void Finish(bool left_out);
  void Continue() { finished_ = left_out_ = false; }
  void SentAssignment();
  void Resume();            // after SentAssignment, on a new stream
  bool AnswerAssignment();  // false: it answers none
  void Reached(uint64_t step, Instant now);
  void ReachedAtLeast(uint64_t step) { step_ = std::max(step_, step); }
  void Report(const Heartbeat& heartbeat);
  void HoldFetch(Instant now) { fetch_since_ = now; }  // the parameters are not available yet
  uint32_t ReportFetch() { return ++fetch_reports_; }
  void Wish(const LeaseRequest& wish) { wish_ = wish; }
  void Granted() { wish_.reset(); }
  void JudgeLink(std::string too_slow) { link_too_slow_ = std::move(too_slow); }
  void Exclude(bool excluded) { not_waited_for_ = excluded; }
  bool NotePace(uint32_t steps) { return std::exchange(pace_noted_, steps) != steps; }  // false: known
  void Bar(const JobId& job) { barred_.insert(job); }
  void Rest(const JobId& job, Instant until);  // barred from the job until then
  void Unbar(const JobId& job);

  // ---- the view of it
  const WorkerRecord& record() const { return record_; }
  const std::optional<ConnectionId>& connection() const { return connection_; }
  Instant heard() const { return heard_; }         // newest message; the coordinator's start if there was none since
  bool has_spoken() const { return has_spoken_; }  // since the coordinator's start
  bool lost() const { return lost_; }              // rounds do not wait for it
  bool left() const { return left_; }              // lost after its own Leaving
  Instant lost_at() const { return lost_at_; }
  bool draining() const { return draining_; }  // gets no new work, and is asked to leave on each stream of its process
  Stage stage() const { return stage_; }
  Instant fetch_since() const { return fetch_since_; }       // start of the fetch, once parameters were available
  uint32_t fetch_reports() const { return fetch_reports_; }  // passed deadlines of that fetch
  const JobId& rests_from() const { return rests_from_; }    // it may get that job again from rests_until() on
  Instant rests_until() const { return rests_until_; }
  bool finished() const { return finished_; }   // in an ending job: has nothing more to contribute
  bool left_out() const { return left_out_; }   // finished because it took too long: its uploads are not waited for
  uint64_t step() const { return step_; }       // newest job clock that it reported in this job
  Instant step_at() const { return step_at_; }  // time of that report
  const Heartbeat& heartbeat() const { return heartbeat_; }
  const std::set<JobId>& barred() const { return barred_; }            // jobs at which it failed since it connected
  const std::optional<LeaseRequest>& wish() const { return wish_; }    // newest denied request; none after a grant
  const std::string& link_too_slow() const { return link_too_slow_; }  // in this job (admission.h); empty: fast enough
  bool not_waited_for() const { return not_waited_for_; }              // it was informed that no round waits for it
  bool Assigned() const { return !record_.job.value.empty(); }
  // It is lost and has no job, and no operator's decision applies to it: only its name is left.
  bool Gone() const { return lost_ && !Assigned() && record_.quarantine.empty() && !record_.cordoned; }
  bool Trains(const JobId& job) const { return record_.job == job && !record_.evaluate_only; }

 private:
  WorkerRecord record_;
  std::optional<ConnectionId> connection_;
  Instant heard_;
  bool has_spoken_ = false, lost_ = false, left_ = false, draining_ = false;
  Instant lost_at_{};
  Stage stage_ = Stage::kNone;
  Instant fetch_since_{};
  uint32_t fetch_reports_ = 0;
  JobId rests_from_;
  Instant rests_until_{};
  bool finished_ = false, left_out_ = false;
  uint32_t unanswered_ = 0;  // assignments on this stream that no Ready has answered so far
  uint64_t step_ = 0;
  Instant step_at_{};
  Heartbeat heartbeat_;
  uint32_t pace_noted_ = 0;  // newest pace in the event log
  std::set<JobId> barred_;
  std::optional<LeaseRequest> wish_;
  std::string link_too_slow_;
  bool not_waited_for_ = false;
};

// Why the activity of a member that is not lost is unknown: it was not heard since the coordinator's start, or its
// second heartbeat in a row is overdue by half an interval. Empty: its heartbeats arrive, or it is lost. For people,
// and to judge whether a late round is a fault; other decisions treat it as present until it is lost.
std::string SilenceOf(const Member& member, Duration heartbeat_interval, Instant now);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_MEMBER_H_
