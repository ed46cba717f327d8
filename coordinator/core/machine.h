// SPDX-License-Identifier: Apache-2.0
// The coordinator: has the fleet, the jobs and the queue, and passes each event on to the job that it concerns. After
// the event, Advance does everything that has become possible. Records of changed rows are collected once, at the end
// of the step. Pure; owned by the engine thread.
#ifndef ATOLL_COORDINATOR_CORE_MACHINE_H_
#define ATOLL_COORDINATOR_CORE_MACHINE_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/explain.h"
#include "coordinator/core/job.h"
#include "coordinator/core/job_facts.h"

namespace atl {

class Machine {
 public:
  Machine(CoreOptions options, RecoveredState recovered, Instant now);

  Effects Start(Instant now, const std::map<JobId, std::string>& damaged_logs);
  Effects Step(const Event& event, Instant now, int64_t wall_nanos);
  Instant NextWake() const;
  BootNumber boot() const { return core_.boot; }
  std::vector<JobId> Jobs() const;
  bool HasJob(const JobId& job) const { return StateOf(job) != nullptr; }
  std::optional<JobView> ViewJob(const JobId& job, Instant now) const;
  std::vector<WorkerView> ViewWorkers(Instant now, const JobId* of = nullptr) const;  // null: all
  void CheckInvariants() const;

 private:
  // Handles the event, or passes it to its job; to every job if it names none.
  template <typename E>
  void Route(const E& e) {
    if constexpr (requires { On(e); }) {
      On(e);
    } else if constexpr (requires(Job & job) { job.Do(e); }) {
      std::optional<absl::Status> answer = absl::NotFoundError(NoSuchJobLine(e.job));
      if (Job* const job = Find(e.job)) answer = job->Do(e);
      if (answer) core_.Answer(e.request, *std::move(answer), e.job);
    } else if constexpr (requires { e.job; }) {
      if (Job* const job = Find(e.job)) job->On(e);
    } else {
      for (auto& [id, job] : jobs_) job.On(e);
    }
  }
  // membership.cc; uploads.cc: UploadOffered
  void On(const WorkerConnected& e);
  void On(const WorkerSaid& e);
  void On(const ConnectionClosed& e);
  void On(const WorkerRevoked& e);
  void On(const UploadOffered& e);
  void On(const JobSubmitted& e) {
    const absl::StatusOr<JobId> job = Submit(e);
    core_.Answer(e.request, job.status(), job.ok() ? *job : JobId{});
  }
  void On(const WorkerSteered& e) { core_.Answer(e.request, Steer(e)); }
  void On(const DiskSpace& e);
  void On(const CoordinatorStalled& e);
  void On(const Tick&) {}
  absl::StatusOr<JobId> Submit(const JobSubmitted& e);
  absl::Status Steer(const WorkerSteered& e);
  absl::Status Drain(Member& member);
  void Cordon(Member& member);
  absl::Status Readmit(Member& member);
  void Quarantine(Member& member, const std::string& why);

  // ---- membership.cc
  void Recover(WorkerRecord worker, Instant now);
  std::optional<Refused> RefusalOf(const Hello& hello) const;
  void Join(Member& member, const Hello& hello);
  void ExpireMembers();
  void Excuse(Duration time);  // does not count this time as silence, lateness or absence
  Duration AbsenceOf(const Member& member) const;
  void ForgetMembers();
  void Forget(const WorkerId& worker, const std::string& why);
  void Fence(Member& member, const std::string& why);  // returns leases, refuses uploads, takes an unused incarnation
  void DropWork(Member& member, const std::string& why);

  // ---- conversation.cc: messages that do not name the worker's job, and Leaving
  void Hear(Member& member, const Heartbeat& message);
  void Hear(Member& member, const LeaseRequest& message);
  void Hear(Member& member, const Applied& message);
  void Hear(Member& member, const Leaving& message);

  // ---- assignment.cc
  void Advance();
  void AssignWorkers();
  void AssignEvaluators();

  // ---- helpers
  bool IsCalm(const Event& event);  // heartbeat of a member that is not fetching, and none is due: only its job acts
  Instant MembersWake() const;      // the next time at which a member needs an action without an event
  Job* Find(const JobId& job);
  const Run* StateOf(const JobId& job) const;
  Job* JobOf(const Member& member) { return member.Assigned() ? Find(member.record().job) : nullptr; }
  Job* SourceOf(const JobSpec& spec);  // has the finished checkpoint from which a job of that spec starts; null: none
  uint64_t Touches() const;            // total changes of worker records and pools, reported or not
  Effects TakeEffects();

  CoreContext core_;
  std::map<JobId, Job> jobs_;
  Instant members_wake_{};  // at most MembersWake(); calm heartbeats do not update it
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_MACHINE_H_
