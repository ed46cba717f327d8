// SPDX-License-Identifier: Apache-2.0
// The state of the worker's core, but for its fragments (fragment.h). Private to worker/core: core.cc dispatches,
// joining.cc takes jobs and fragments, sync.cc sends and applies, leaping.cc skips updates, dropping.cc drops syncs,
// evaluating.cc evaluates, training.cc decides at a step boundary.
#ifndef ATOLL_WORKER_CORE_STATE_H_
#define ATOLL_WORKER_CORE_STATE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/plan/limits.h"
#include "common/plan/paced_clock.h"
#include "common/plan/sync_schedule.h"
#include "worker/core/core.h"
#include "worker/core/evaluation.h"
#include "worker/core/fragment.h"
#include "worker/core/joiner_clock.h"
#include "worker/core/waiting.h"

namespace atl::worker {

constexpr uint32_t kNonFiniteInARow = 3;  // I29

struct Lease {
  LeaseId id;
  SampleRange range;
  uint64_t cursor = 0;
};

struct LeaseWish {
  uint64_t request = 0, samples = 0;
  bool open = false;    // not answered
  bool denied = false;  // newest answer
  bool again = false;   // denied, but something was committed since
  std::string reason;
  Instant asked_at{};
  LeaseId newest{};  // newest lease from any request; ids grow
};

enum class Phase { kIdle, kPreparing, kFetching, kActive, kLeft };

struct Departure {
  std::string reason;
  Instant began, deadline;
};

struct Core::State {
  explicit State(CoreOptions o) : options(std::move(o)) {}

  // core.cc
  void Dispatch(const Event& event);
  void OnStreamUp();
  void OnStreamDown(const StreamDown& down);
  void OnMessage(const CoordinatorMessage& message);
  void OnWelcome(const Welcome& welcome);
  void LeaveLine(BootNumber restored);
  void DoNotFollow(const std::string& why);
  void OnFate(const Welcome::Fate& fate);
  void OnLeaveWanted(const LeaveWanted& wanted);
  void CheckDrift() const;  // fails if it exceeds the trained samples, or lasts too long
  Hello MakeHello() const;
  void SayIt(WorkerMessage message) { effects.push_back(Say{std::move(message)}); }
  void Tell(NoteLevel level, std::string event, std::string text) {
    effects.push_back(Note{level, std::move(event), std::move(text)});
  }

  // joining.cc
  void OnAssignment(const Assignment& assignment);
  void BeginJob(const Assignment& assignment);
  void ContinueJob(const Assignment& assignment);
  void TakeRevision(const Assignment& assignment);  // a newer one
  void OnJobPrepared(const JobPrepared& prepared);
  void FetchAll();
  void OnFragmentFetched(const FragmentFetched& fetched);
  void OnFragmentFetchFailed(const FragmentFetchFailed& failed);
  void OnFragmentInstalled(const FragmentInstalled& installed);
  void OnInstalledDamaged(uint32_t p, const FragmentInstalled& installed);
  void FinishJoining();
  void RepeatFetches();
  void OnJobBroken(const JobBroken& broken);
  void OnJobDelayed(const JobDelayed& delayed);
  void ReleaseInTime();
  void DropJob(bool return_leases);
  void VoidIncarnation();
  void SayReady(uint64_t step);

  // sync.cc
  void OnUpdatePublished(const UpdatePublished& published);
  void AddPending(uint32_t p, const Pending& pending);
  void FillGaps(uint32_t p);
  void StartFetches(uint32_t p);
  void OnUpdateFetched(const UpdateFetched& fetched);
  void OnUpdateFetchFailed(const UpdateFetchFailed& failed);
  void OnUpdateApplied(const UpdateApplied& applied);
  void OnContributionFormed(const ContributionFormed& formed);
  void OnContributionFailed(const ContributionFailed& failed);
  void OnUploadEnded(const UploadEnded& ended);
  void OnContributionRefused(const ContributionRefused& refused);
  void StartUpload(uint32_t p);
  void Withdraw(uint32_t p);  // drops `held`, without a verdict
  void MarkRefused(uint32_t p, const std::string& reason);
  void ApplyReady();
  bool MayApply(uint32_t p, Standing standing) const;
  bool MaySettle(const Fragment& f, Standing standing) const;
  void Settle(uint32_t p);
  void EndLeases(const std::vector<LeaseCursor>& contributed);
  void SendDue();
  void Form(uint32_t p, bool retry);
  bool SkipsForOthers(uint32_t p);
  bool SendsAhead(uint32_t p) const;
  uint64_t OthersSend(uint32_t p) const;
  uint64_t StepsToApply(uint32_t p) const;
  bool MayForm(const Fragment& f) const;
  uint64_t SendStep(uint32_t p, bool retry) const;
  void TakeOuterEverywhere(const std::string& why);
  void Heal(uint32_t p);
  Duration ApplyPatience() const;

  // dropping.cc
  bool Drops(uint32_t p) const;  // the job drops this worker's sync to the open round of the fragment
  void DropSync(uint32_t p);
  void SayDropped(uint32_t p);

  // leaping.cc
  bool LeapForBytes(uint32_t p);
  void FetchWhole(uint32_t p);
  void CatchUpFragments();
  void Leap(uint32_t p, Version at_least);
  void OnLeapFailed(uint32_t p);
  void OnLeapt(uint32_t p);

  // training.cc
  void OnBoundary();
  bool Busy() const;
  bool CatchingUp() const;
  void CatchUpClock();
  void SetClockBack(uint64_t to);
  bool WaitForUpdates();
  bool StepsForbidden() const;
  bool UnsyncedLimitReached() const;
  bool StandsStill();
  void SendWhatIsLeft();
  bool StopReached() const;
  void OnPaceAssigned(const PaceAssigned& order);
  void OnStepDone(const StepDone& done);
  void FailNonFinite();
  void Leave(ExitReason reason, const std::string& text);
  void TryStep();
  uint64_t Unused() const;
  void WishForLeases();
  void OnLeaseGranted(const LeaseGranted& granted);
  void OnLeaseDenied(const LeaseDenied& denied);
  void OnLeaseRevoked(const LeaseRevoked& revoked);
  void OnClosingStarted(const ClosingStarted& started);
  void ContinueClosing();
  void ContinueLeaving();
  void FormLastContributions();
  std::vector<LeaseCursor> Cursors() const;
  void ReturnLeases();

  // evaluating.cc
  void OnEvaluationAssigned(const EvaluationAssigned& assigned);
  bool HasMade(const EvaluationAssigned& wanted) const;
  bool EvaluationNeeds(uint32_t p) const;
  void EndEvaluation();
  void BeginPatience(EvaluationWanted& wanted) const;
  bool TryEvaluate();
  void OnPiece();  // a piece of the evaluation is done
  void OnHeldOutEvaluated(const HeldOutEvaluated& piece);
  void OnTaskScored(const TaskScored& scored);
  void ContinueEvaluation();
  void SayEvaluation();
  void SayEvaluationFailed(const std::string& why);
  void OnEvaluationFailed(const EvaluationFailed& failed);
  void OnEvaluationDelayed(const EvaluationDelayed& delayed);

  void WakeAt(Instant t) {
    if (t < wake) wake = t;
  }
  void SetWaiting(std::string clause) { waiting.Set(std::move(clause), now); }

  uint64_t Clock() const { return taken + gained + clock_offset - set_back; }
  uint32_t Period() const { return spec->sync.inner_steps; }

  const CoreOptions options;
  Instant now{}, wake = kNever;
  Effects effects;
  bool welcomed = false;  // the stream is up and its coordinator has sent Welcome
  bool refusing = false;  // this stream's coordinator is not followed
  Instant away_since{};
  BootNumber boot;
  uint64_t boot_nonce = 0;  // of the coordinator with this boot number; 0: not sent
  Incarnation incarnation;
  Duration heartbeat{limits::kHeartbeatInterval}, membership{limits::kMembershipTimeout};

  Phase phase = Phase::kIdle;
  JobId job;
  Instant prepare_at = kNever;  // next attempt
  bool prepared = false;        // the session holds this job's memory
  Instant release_at = kNever;  // frees it unless the job is assigned again to the new incarnation
  bool fresh = true;            // the optimizer begins again (BeginOptimizer)
  VersionVector reached;        // by the previous incarnation; a job below it was rolled back, which voids moments
  std::shared_ptr<const JobSpec> spec;
  uint64_t revision = 0;
  VersionVector assigned;      // versions of the newest assignment
  Digest assigned_layout;      // of the newest assignment; zero: not sent
  JobCourse course;            // of the newest assignment
  JoinerClock assigned_clock;  // of the newest assignment
  std::optional<SyncSchedule> schedule;
  std::vector<Fragment> fragments;
  std::vector<JobPrepared::FragmentSize> sizes;      // of the fragments
  std::optional<std::pair<JobId, uint64_t>> failed;  // job and revision that failed on this worker
  std::string failed_reason;
  bool failed_permanent = false;

  // Steps.
  uint64_t taken = 0;   // since the fetch
  uint64_t gained = 0;  // clock steps in addition to those taken, at a pace below the period
  uint64_t clock_offset = 0;
  uint64_t set_back = 0;  // clock steps taken while the coordinator was away, not counted
  bool ran_on = false;    // passed send steps without sending while it was away
  PacedClock pace;
  uint64_t job_clock = 0;     // newest known
  uint64_t applied_at = 0;    // steps taken when an update was last merged, or the outer copy taken
  uint32_t step_samples = 0;  // of the running step; 0: none
  uint32_t non_finite = 0;    // consecutive
  uint64_t tokens_total = 0;
  int64_t step_ns = 0, loss_micro = 0;  // moving mean; newest
  std::vector<Lease> leases;            // in the order of reading
  LeaseWish wish;

  std::optional<EvaluationWanted> evaluation;
  std::optional<EvaluationMade> made_evaluation;  // the newest: the message may be lost, and requested again
  std::optional<ClosingStarted> closing;
  bool closing_said = false;  // whether the final Ready was sent
  std::optional<Departure> leaving;
  Waiting waiting;  // as of the newest boundary
};

}  // namespace atl::worker

#endif  // ATOLL_WORKER_CORE_STATE_H_
