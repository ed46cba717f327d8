// SPDX-License-Identifier: Apache-2.0
// One job, as a machine of its own: it owns its state (run.h) and decides on its rounds, evaluations, checkpoints,
// leases and its end. The coordinator (machine.h) passes events on and reads run(). Pure; owned by the engine thread.
#ifndef ATOLL_COORDINATOR_CORE_JOB_H_
#define ATOLL_COORDINATOR_CORE_JOB_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/context.h"
#include "coordinator/core/run.h"

namespace atl {

class Job {
 public:
  static constexpr char kStopped[] = "stopped: ";  // begins the reason of a job that paused as it could not continue

  Job(CoreContext& core, JobRecord record, PoolRecord pool) : core_(core), run_(std::move(record), std::move(pool)) {}
  Job(CoreContext& core, RecoveredJob job);  // recovery; then call Restore, and BeginRounds once the fleet is known
  void Restore(const LeaseRecord& lease) { run_.pool.Restore(lease); }
  void BeginRounds();
  void Start(const std::string* damage);  // of its round log; null: none
  void Submit();
  void Advance();  // assignment.cc: does what has become possible
  void TakeChanges(std::vector<LedgerRecord>& out);
  const Run& run() const { return run_; }

  // ---- events: uploads.cc, commits.cc, screening.cc, ending.cc, rollback.cc, stopping.cc and room.cc
  UploadVerdict Offer(const UploadOffered& e);
  void On(const UploadFinished& e);
  void On(const ContributionDurable& e);
  void On(const UploadBroken& e);
  void On(const ParametersReady& e);
  void On(const PreparationDelayed& e);
  void On(const TaskFailed& e);
  void On(const CheckpointChecked& e);
  void On(const RoundAggregated& e);
  void On(const ContributionsScreened& e);
  void On(const CheckpointWritten& e);
  void On(const CheckpointDelayed& e);
  void On(const DiskSpace& e);

  // ---- requests
  absl::Status Do(const JobControlled& e);
  absl::Status Do(const JobUpdated& e);
  std::optional<absl::Status> Do(const JobRolledBack& e);  // none: the answer follows
  absl::Status Do(const CheckpointUnwanted& e);
  absl::Status Do(const JobUnwanted& e);

  // ---- messages of its workers
  void Hear(Member& member, const Heartbeat& message);
  void Hear(Member& member, const LeaseRequest& message);
  void Hear(Member& member, const Ready& message);
  void Hear(Member& member, const Applied& message);
  void Hear(Member& member, const EvaluationDone& message);
  void Hear(Member& member, const LeaseReturn& message);
  void Hear(Member& member, const JobFailure& message);
  void Hear(Member& member, const SyncDropped& message);

  // ---- its workers
  void Assign(Member& member);
  void WelcomeBack(Member& member, const std::vector<LeaseCursor>& leases);  // on a new stream
  void Rejoin(const WorkerId& worker);                                       // new process: its evaluation failed
  void Lose(const WorkerId& worker);
  void Drop(Member& member, const std::string& why);    // it leaves the job: returns leases, refuses uploads
  void Detach(Member& member, const std::string& why);  // drops it, and notifies it if connected, else fences it
  void Forgive(const WorkerId& worker) { run_.failures.erase(worker); }
  void ForgetStrikes(const WorkerId& worker) { run_.strikes.Forget(worker); }
  void Forget(const WorkerId& worker);
  void Excuse(Duration time);  // does not count this time as lateness
  void Retain();               // drops checkpoints that nothing needs

 private:
  // ---- conversation.cc
  bool GrantLease(Member& member, const LeaseRequest& wish, std::string* why_not);
  void RecoverAbsentLeases();
  void RecoverShards();  // the corpus of each worker, from the durable state
  // ---- assignment.cc
  void AdmitWorkers();
  void AdvanceFetches();
  uint64_t SendAssignment(Member& member);  // returns the clock that it sends
  // ---- uploads.cc
  void DropUploads(const WorkerId* worker, const absl::Status& why);
  // Refuses, in the order of their ids, the uploads that `end` returns for each round.
  void RefuseUploads(const std::function<std::vector<UploadId>(Round&)>& end, const absl::Status& why);

  // ---- commits.cc
  void OpenRound(FragmentIndex fragment);
  void OpenRounds();  // those that are not being merged
  void AdvanceRounds();
  void CloseWhatHasItsQuorum();  // before a pause
  void ReportOverdue(FragmentIndex fragment, const RoundRule& rule, const RoundVerdict& verdict);
  // Restarts deadlines of open rounds. With a worker: only of those that lack it and no other expected worker.
  void AllowAfresh(const WorkerId& only_for);
  void SettleRevoked();
  void AfterCommit(FragmentIndex fragment);
  // ---- screening.cc
  void HearRemarks(FragmentIndex fragment, const std::vector<ScreenRemark>& found, const RoundRecord& record);
  void Strike(FragmentIndex fragment, const ScreenedOut& refused);

  // ---- ending.cc
  void CheckStop();
  void BeginClosing(uint64_t stop_step, const std::string& why);  // 0: one step after all earlier sends
  void AdvanceClosing();
  void End(JobState state, const std::string& reason);
  void WriteCheckpointNow(uint64_t step);

  // ---- evaluating.cc
  void StartEvaluation();
  void AdvanceEvaluation();
  void EvaluationTakenFrom(const EvaluationTaken& taken, bool holder_is_able);
  void SendEvaluation(const Member& member);

  // ---- room.cc, stopping.cc
  void WaitForRoom(const std::string& what, const std::string& reason);
  void RetryOnceDue();
  void SetState(JobState state, const std::string& reason);
  void Hold(const std::string& reason);   // PAUSED with the reason; its workers become free
  void BreakOff(const std::string& why);  // FAILED if nothing is lost by it, else PAUSED with the reason
  void Unload();                          // frees the memory; the next Load begins from the durable state
  void Load();
  void LiftBars();  // workers that failed at the job may get it again

  // ---- requests.cc, rollback.cc
  absl::Status Pause();
  absl::Status Resume();
  absl::Status Cancel(bool drain);
  void RollBack(const CheckpointRecord& checkpoint);
  void AnswerRollback(absl::Status status);  // no effect without a request, or while its checkpoint is checked

  CoreContext& core_;
  Run run_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_JOB_H_
