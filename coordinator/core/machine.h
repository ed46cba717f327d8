// SPDX-License-Identifier: Apache-2.0
// The state of Core and the operations that change it, implemented in several files by theme: each section
// below names its own. Handlers change state; Advance then does everything that has become possible. Records of
// changed rows are collected once, at the end of the step. Pure; owned by the engine thread.
#ifndef ATOLL_COORDINATOR_CORE_MACHINE_H_
#define ATOLL_COORDINATOR_CORE_MACHINE_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/context.h"
#include "coordinator/core/explain.h"
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
  bool HasJob(const JobId& job) const { return Find(job) != nullptr; }
  std::optional<JobView> ViewJob(const JobId& job, Instant now) const;
  std::vector<WorkerView> ViewWorkers(Instant now, const JobId* of = nullptr) const;  // null: all
  void CheckInvariants() const;

 private:
  // ---- events, by theme
  template <typename E>
  void Route(const E& e) {
    if constexpr (requires(Run & run) { On(run, e); }) {
      if (Run* run = Find(e.job)) On(*run, e);
    } else if constexpr (requires(Run & run) { Do(run, e); }) {
      std::optional<absl::Status> answer = absl::NotFoundError(NoSuchJobLine(e.job));
      if (Run* run = Find(e.job)) answer = Do(*run, e);
      if (answer) core_.Answer(e.request, *std::move(answer), e.job);
    } else if constexpr (requires(Run & run, Round & round) { On(run, round, e); }) {
      for (auto& [id, run] : runs_) {
        if (Round* const round = run.RoundOf(e.upload)) On(run, *round, e);
      }
    } else {
      On(e);
    }
  }
  void On(const WorkerConnected& e);
  void On(const WorkerSaid& e);
  void On(const ConnectionClosed& e);
  void On(const WorkerRevoked& e);
  void On(const UploadOffered& e);
  void On(Run& run, Round& round, const UploadFinished& e);
  void On(Run& run, Round& round, const ContributionDurable& e);
  void On(Run&, Round& round, const UploadBroken& e) { round.Break(e.upload); }
  void On(const JobSubmitted& e) {
    const absl::StatusOr<JobId> job = Submit(e);
    core_.Answer(e.request, job.status(), job.ok() ? *job : JobId{});
  }
  absl::StatusOr<JobId> Submit(const JobSubmitted& e);
  absl::Status Do(Run& run, const JobControlled& e);
  absl::Status Do(Run& run, const JobUpdated& e);
  std::optional<absl::Status> Do(Run& run, const JobRolledBack& e);  // none: the answer follows
  absl::Status Do(Run& run, const CheckpointUnwanted& e);
  absl::Status Do(Run& run, const JobUnwanted& e);
  void On(const WorkerSteered& e) { core_.Answer(e.request, Steer(e)); }
  absl::Status Steer(const WorkerSteered& e);
  absl::Status Drain(Member& member);
  void Cordon(Member& member);
  absl::Status Readmit(Member& member);
  void On(Run& run, const ParametersReady& e);
  void On(Run& run, const PreparationDelayed& e);
  void On(Run& run, const TaskFailed& e);
  void On(Run& run, const CheckpointChecked& e);
  void On(Run& run, const RoundAggregated& e);
  void On(Run& run, const ContributionsScreened& e);
  void On(Run& run, const CheckpointWritten& e);
  void On(Run& run, const CheckpointDelayed& e);
  void On(const DiskSpace& e);
  void On(const CoordinatorStalled& e);
  void On(const Tick&) {}
  void Recover(RecoveredJob job, Instant now);
  void Recover(WorkerRecord worker, Instant now);

  // ---- membership.cc
  std::optional<Refused> RefusalOf(const Hello& hello) const;
  bool MayResume(const Member& member, const Hello& hello) const;
  void Join(Member& member, const Hello& hello);
  std::vector<Welcome::Fate> FatesOf(const Hello& hello) const;
  void ExpireMembers();
  void Excuse(Duration time);  // does not count this time as silence, lateness or absence
  Duration AbsenceOf(const Member& member) const;
  void ForgetMembers();
  bool IsNeeded(const WorkerId& worker) const;
  void Forget(const WorkerId& worker, const std::string& why);
  void Fence(Member& member, const std::string& why);   // returns leases, refuses uploads, takes an unused incarnation
  void Detach(Member& member, const std::string& why);  // it leaves its job: notified if connected, otherwise fenced
  void DropWork(Member& member, const std::string& why);
  void ReturnLeases(Run& run, const WorkerId& worker);

  // ---- conversation.cc
  void Hear(Member& member, const Heartbeat& message);
  void Hear(Member& member, const LeaseRequest& message);
  void Hear(Member& member, const Ready& message);
  void Hear(Member& member, const Applied& message);
  void Hear(Member& member, const EvaluationDone& message);
  void Hear(Member& member, const LeaseReturn& message);
  void Hear(Member& member, const Leaving& message);
  void Hear(Member& member, const JobFailure& message);
  void Hear(Member& member, const SyncDropped& message);  // uploads.cc
  bool GrantLease(Run& run, Member& member, const LeaseRequest& wish, std::string* why_not);
  void RecoverAbsentLeases(Run& run);

  // ---- uploads.cc
  UploadVerdict JudgeOffer(const UploadOffered& e);
  void DropUploads(Run& run, const WorkerId* worker, const absl::Status& why);
  // Refuses, in the order of their ids, the uploads that `end` returns for each round.
  void RefuseUploads(Run& run, const std::function<std::vector<UploadId>(Round&)>& end, const absl::Status& why);

  // ---- commits.cc
  void BalancePace(const Run& run, Member& member);
  void OpenRound(Run& run, FragmentIndex fragment);
  void AdvanceRounds(Run& run);
  void CloseWhatHasItsQuorum(Run& run);  // before a pause
  void ReportOverdue(Run& run, FragmentIndex fragment, const RoundRule& rule, const RoundVerdict& verdict);
  // Restarts the deadlines of the open rounds; with a worker, only of those that wait for that worker alone.
  void AllowAfresh(Run& run, const WorkerId& only_for);
  void SettleRevoked(Run& run);
  void AfterCommit(Run& run, FragmentIndex fragment);
  // ---- admission.cc
  void JudgeLinkOf(const Run& run, Member& member);
  void AdmitWorkers(Run& run);

  // ---- screening.cc (and the verdicts of the aggregate)
  void HearRemarks(Run& run, FragmentIndex fragment, const std::vector<ScreenRemark>& found, const RoundRecord& record);
  void Strike(Run& run, FragmentIndex fragment, const ScreenedOut& refused);
  void Quarantine(Member& member, const std::string& why);

  // ---- conversation.cc: data.assignment: shards
  void RecoverShards(Run& run);  // the corpus of each worker, from the durable state

  // ---- ending.cc
  void CheckStop(Run& run);
  void BeginClosing(Run& run, uint64_t stop_step, const std::string& why);  // 0: one step after all earlier sends
  void AdvanceClosing(Run& run);
  void End(Run& run, JobState state, const std::string& reason);
  void WriteCheckpointNow(Run& run, uint64_t step);
  void Retain(Run& run);
  absl::Status CheckUnwanted(const Run& run, uint64_t step) const;
  absl::Status CheckPurge(const Run& run) const;

  // ---- evaluating.cc
  void StartEvaluation(Run& run);
  void AdvanceEvaluation(Run& run);
  void EvaluationTakenFrom(Run& run, const EvaluationTaken& taken, bool holder_is_able);
  void SendEvaluation(const Member& member, const Run& run);

  // ---- room.cc
  void WaitForRoom(Run& run, const std::string& what, const std::string& reason);
  void RetryOnceDue(Run& run);

  // ---- stopping.cc
  static constexpr char kStopped[] = "stopped: ";   // prefix of the reason of a job that no person has paused
  void Hold(Run& run, const std::string& reason);   // PAUSED with the reason; its workers become free
  void BreakOff(Run& run, const std::string& why);  // FAILED if nothing is lost by it, else PAUSED with the reason
  void Unload(Run& run);                            // frees the memory; the next Load begins from the durable state
  void Load(Run& run);
  void LiftBars(Run& run);  // workers that failed at the job may get it again

  // ---- requests.cc
  absl::Status Pause(Run& run);
  absl::Status Resume(Run& run);
  absl::Status Cancel(Run& run, bool drain);

  // ---- rollback.cc
  absl::StatusOr<const CheckpointRecord*> CheckRollback(const Run& run, uint64_t step) const;
  void RollBack(Run& run, const CheckpointRecord& checkpoint);

  // ---- assignment.cc
  void Advance();
  void AdvanceRun(Run& run);
  void AdvanceFetches(Run& run);  // fetching.cc, like the next one
  void AssignWorkers();
  void AssignEvaluators();
  void Assign(Member& member, Run& run);
  uint64_t SendAssignment(Member& member, const Run& run);  // returns the clock that it sends

  // ---- helpers
  bool IsCalm(const Event& event);  // a heartbeat, while no member fetches or is due: only its job needs work
  Instant MembersWake() const;      // when a member needs an action by itself
  Run* Find(const JobId& job);
  const Run* Find(const JobId& job) const;
  Run* RunOf(const Member& member) { return member.Assigned() ? Find(member.record().job) : nullptr; }
  void SetState(Run& run, JobState state, const std::string& reason);
  uint64_t Touches() const;  // total changes of worker records and pools, reported or not
  Effects TakeEffects();

  CoreContext core_;
  std::map<JobId, Run> runs_;
  Instant members_wake_{};  // at most MembersWake(); calm heartbeats do not update it
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_MACHINE_H_
