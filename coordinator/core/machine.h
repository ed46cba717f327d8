// SPDX-License-Identifier: Apache-2.0
// The state behind Core and the verbs that change it, spread over bodies by theme: each section below names its own.
// Handlers change state; Advance then does everything that has become possible. Records of changed rows are collected
// once, at the end of the step. Pure; owned by the engine thread.
#ifndef ATOLL_COORDINATOR_CORE_MACHINE_H_
#define ATOLL_COORDINATOR_CORE_MACHINE_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/core.h"
#include "coordinator/core/fleet.h"
#include "coordinator/core/run.h"

namespace atl {

class Machine {
 public:
  Machine(CoreOptions options, RecoveredState recovered, Instant now);

  Effects Start(Instant now, const std::map<JobId, std::string>& damaged_logs);
  Effects Step(const Event& event, Instant now, int64_t wall_nanos);
  Instant NextWake() const;
  BootNumber boot() const { return boot_; }
  std::vector<JobId> Jobs() const;
  bool HasJob(const JobId& job) const { return Find(job) != nullptr; }
  std::optional<JobView> ViewJob(const JobId& job, Instant now) const;
  std::vector<WorkerView> ViewWorkers(Instant now, const JobId* of = nullptr) const;  // null: all
  void CheckInvariants() const;

 private:
  // ---- events, by theme
  void On(const WorkerConnected& e);
  void On(const WorkerSaid& e);
  void On(const ConnectionClosed& e);
  void On(const UploadOffered& e);
  void On(const UploadFinished& e);
  void On(const ContributionDurable& e);
  void On(const UploadBroken& e);
  void On(const JobSubmitted& e);
  void On(const JobControlled& e);
  void On(const JobUpdated& e);
  void On(const JobRolledBack& e);
  void On(const CheckpointUnwanted& e);
  void On(const JobUnwanted& e);
  void On(const WorkerSteered& e);
  absl::Status Drain(Member& member);
  void Cordon(Member& member);
  absl::Status Readmit(Member& member);
  void On(const ParametersReady& e);
  void On(const PreparationDelayed& e);
  void On(const TaskFailed& e);
  void On(const CheckpointChecked& e);
  void On(const RoundAggregated& e);
  void On(const ContributionsScreened& e);
  void On(const CheckpointWritten& e);
  void On(const CheckpointDelayed& e);
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
  void Excuse(Duration time);  // nobody is silent, late or away for it: such clocks go on from where they stood
  Duration AbsenceOf(const Member& member) const;
  void ForgetMembers();  // forgetting.cc, as the next two
  bool IsNeeded(const WorkerId& worker) const;
  void Forget(const WorkerId& worker, const std::string& why);
  void Fence(Member& member, const std::string& why);   // leases back, uploads refused, a number that nobody holds
  void Detach(Member& member, const std::string& why);  // it leaves its job: told when connected, else fenced
  void DropWork(Member& member, const std::string& why);
  void ReturnLeases(Run& run, const WorkerId& worker);

  // ---- conversation.cc
  void Hear(Member& member, const Hello& message);
  void Hear(Member& member, const Heartbeat& message);
  void Hear(Member& member, const LeaseRequest& message);
  void Hear(Member& member, const Ready& message);
  void Hear(Member& member, const Applied& message);
  void Hear(Member& member, const EvaluationDone& message);
  void Hear(Member& member, const LeaseReturn& message);
  void Hear(Member& member, const Leaving& message);
  void Hear(Member& member, const JobFailure& message);
  void Hear(Member& member, const LogLines& message);
  void Hear(Member& member, const SyncDropped& message);  // experiments.cc
  bool GrantLease(Run& run, Member& member, const LeaseRequest& wish, std::string* why_not);
  void RecoverAbsentLeases(Run& run);
  void JudgeFailures(Run& run, const std::string& reason);
  void SuspectRanges(Run& run, const WorkerId& worker, const std::vector<SampleRange>& held);

  // ---- uploads.cc
  Judgement JudgeOffer(const UploadOffered& e);
  absl::Status CheckSender(const Run& run, const ContributionHeader& header) const;
  absl::Status CheckContent(const Run& run, const ContributionHeader& header);
  absl::Status CheckCursors(const Run& run, const ContributionHeader& header);
  void DropUploads(Run& run, const WorkerId* worker, const absl::Status& why);

  // ---- commits.cc
  RoundRule RuleOf(const Run& run, FragmentIndex fragment) const;
  Duration GraceOf(const Run& run) const;
  Duration DeadlineOf(const Run& run) const;
  Duration PeriodOf(const Run& run, const Member& member) const;  // at its pace; zero when no step was measured
  void BalancePace(const Run& run, Member& member);
  void OpenRound(Run& run, FragmentIndex fragment);
  void AdvanceRounds(Run& run);
  void CloseWhatHasItsQuorum(Run& run);  // before a pause
  void IssueClose(Run& run, FragmentIndex fragment, const std::string& why);
  void ReportOverdue(Run& run, FragmentIndex fragment, const RoundVerdict& verdict);
  // The deadlines of the open rounds begin now; with a worker, only of those that wait for nobody but it.
  void AllowAfresh(Run& run, const WorkerId& only_for);
  void SettleRevoked(Run& run);
  uint32_t LeastExpected(const Run& run) const;  // workers that no round can do without; starved.cc, as the next one
  void NoteWhoTookPart(Run& run, FragmentIndex fragment, bool enough);  // in the round that is committed
  void Publish(Run& run, const RoundRecord& record);
  void AfterCommit(Run& run, FragmentIndex fragment);
  uint64_t NewestStep(const Run& run) const;
  uint64_t StepOfHalf(const Run& run) const;  // which at least half of those that train it have reached
  uint64_t ClockOf(const Run& run) const { return run.ClockStep(NewestStep(run)); }
  std::pair<uint64_t, Duration> ClockOfJoiner(const Run& run) const;  // and what a step of it takes; 0: it stands
  // ---- admission.cc
  void JudgeLinkOf(const Run& run, Member& member);
  void AdmitWorkers(Run& run);
  std::string LinkLine(const Run& run) const;

  // ---- screening.cc (and the verdicts of the aggregate)
  void HearRemarks(Run& run, FragmentIndex fragment, const std::vector<ScreenRemark>& found, const RoundRecord& record);
  void Strike(Run& run, FragmentIndex fragment, const ScreenedOut& refused);
  void Quarantine(Member& member, const std::string& why);

  // ---- experiments.cc
  uint32_t PoolOf(const Run& run) const;        // may take part, by the committed versions of fragment 0
  uint32_t LeastWorkers(const Run& run) const;  // workers.min and workers.max, cut to the pool
  uint32_t MostWorkers(const Run& run) const;
  std::string WhyTooMany(const Run& run) const;
  std::string WhyIdle(const Member& member) const;

  // ---- pinning.cc
  std::optional<SampleRange> PositionsFor(Run& run, const WorkerId& worker);  // for its next lease; none: no corpus
  void RecoverShards(Run& run);  // who read which corpus, from what is durable

  // ---- ending.cc
  void CheckStop(Run& run);
  // A training worker has reported `step`, and every other one too or waits in vain: none of them sends anything more.
  bool NobodyGoesOn(const Run& run, uint64_t step) const;
  bool WaitsInVain(const Run& run, const Member& member) const;  // at an apply step: no quorum, nothing under way
  void BeginClosing(Run& run, uint64_t stop_step, const std::string& why);  // 0: a step ahead of all that was sent
  void AdvanceClosing(Run& run);
  bool ClosingRoundsDone(Run& run);
  void End(Run& run, JobState state, const std::string& reason);
  void WriteCheckpointNow(Run& run, uint64_t step);
  void Retain(Run& run);
  absl::Status CheckUnwanted(const Run& run, uint64_t step) const;
  absl::Status CheckPurge(const Run& run) const;
  void GiveUp(Run& run, uint64_t checkpoint);  // by its step

  // ---- evaluating.cc
  bool WantsEvaluation(const Run& run) const;
  void StartEvaluation(Run& run);
  void AdvanceEvaluation(Run& run);
  bool ProlongEvaluation(Run& run, const Member& holder);
  void TakeEvaluation(Run& run, bool holder_is_able);
  Member* NextEvaluator(const Run& run);
  void GiveEvaluation(Run& run, Member& member);
  void SendEvaluation(const Member& member, const Run& run);

  // ---- room.cc
  void WaitForRoom(Run& run, const std::string& what, const std::string& reason);
  void RetryOnceDue(Run& run);
  void RetryCheckpoints(Run& run);
  std::string RoomLine(const Run& run) const;

  // ---- stopping.cc
  static constexpr char kStopped[] = "stopped: ";   // begins the reason of a job that no person has paused
  void Hold(Run& run, const std::string& reason);   // PAUSED with the reason; workers are free
  void BreakOff(Run& run, const std::string& why);  // FAILED where nothing is lost by it, else PAUSED with the reason
  void Unload(Run& run);                            // memory is given up; the next Load begins from what is durable
  void Load(Run& run);
  void LiftBars(Run& run);  // workers that failed at the job may be given it again

  // ---- requests.cc
  void Answer(RequestId request, absl::Status status, const JobId& job = {});
  absl::Status Control(Run& run, JobAction action);
  absl::Status Pause(Run& run);
  absl::Status Resume(Run& run);
  absl::Status Cancel(Run& run, bool drain);

  // ---- rollback.cc
  absl::StatusOr<const CheckpointRecord*> CheckRollback(const Run& run, uint64_t step) const;
  void RollBack(Run& run, const CheckpointRecord& checkpoint);

  // ---- assignment.cc
  void Advance();
  void AdvanceRun(Run& run);
  void AdvanceFetches(Run& run);  // fetching.cc, as the next one
  Instant FetchDeadlineOf(const Run& run, const Member& member) const;
  void AssignWorkers();
  void AssignEvaluators();
  void Assign(Member& member, Run& run);
  uint64_t SendAssignment(Member& member, const Run& run);  // the clock that it tells
  uint32_t Needed(const Run& run) const;
  std::vector<WorkerId> Workers(const Run& run) const;  // alive and assigned to train, by name
  uint32_t Training(const Run& run) const;

  // ---- small tools
  bool IsCalm(const Event& event);  // a heartbeat, while no member fetches or is due: all but its job is at rest
  Instant MembersWake() const;      // when something about a member is due by itself
  Run* Find(const JobId& job);
  const Run* Find(const JobId& job) const;
  Run* RunOf(const Member& member) { return member.Assigned() ? Find(member.record.job) : nullptr; }
  void SendTo(const Member& member, CoordinatorMessage message);
  void SendToJob(const Run& run, const CoordinatorMessage& message);
  void Disconnect(Member& member);
  Incarnation NewIncarnation();
  void Note(const JobId& job, std::string kind, std::string text, std::map<std::string, std::string> fields = {});
  void SetState(Run& run, JobState state, const std::string& reason);
  void Verdict(UploadId upload, UploadDecision decision, absl::Status status);
  uint64_t Touches() const;  // how often a worker's record or a pool has changed, ever: told of or not
  Effects TakeEffects();
  std::string WaitingLine(const Run& run, Instant now) const;
  std::string WaitingForRound(const Run& run, Instant now) const;
  std::string WaitingFor(const Run& run, FragmentIndex fragment, Instant now) const;
  std::string WhoMayCome(const Run& run, FragmentIndex fragment) const;  // not expected in it, and may contribute
  bool WaitsAsItShould(const Run& run, const Round& round) const;  // reported: who is missing evaluates or fetches
  std::string FailureOf(const WorkerId& worker) const;

  CoreOptions options_;
  BootNumber boot_;
  CountersRecord counters_;
  bool counters_touched_ = false;
  Fleet fleet_;
  std::map<JobId, Run> runs_;
  bool disk_low_ = false;
  static constexpr char kDiskLow[] = "the coordinator's disk is almost full: no uploads until space is freed";
  Instant now_{};
  Instant members_wake_{};  // at most MembersWake(), which calm heartbeats put off
  int64_t wall_nanos_ = 0;
  Effects out_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_MACHINE_H_
