// SPDX-License-Identifier: Apache-2.0
// The state of a Session and the execution of the core's effects. Private to worker/session. session.cc turns
// the session, prepares the job and synchronises; session_steps.cc takes steps and evaluates.
#ifndef ATOLL_WORKER_SESSION_SESSION_STATE_H_
#define ATOLL_WORKER_SESSION_SESSION_STATE_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/mutex.h"
#include "worker/replica/replicas.h"
#include "worker/session/inbox.h"
#include "worker/session/session.h"

namespace atl {

using worker::Effect;
using worker::Event;

// Whether a failed preparation, request for samples or evaluation is tried again.
inline bool WorthAnotherTry(const absl::Status& status) {
  return status.code() == absl::StatusCode::kDeadlineExceeded || status.code() == absl::StatusCode::kUnavailable;
}

struct Session::State {
  State(SessionOptions o, Link& l, JobFactory& f, Executor& x, const Clock& c, Log& lg, std::function<void()> w)
      : options(std::move(o)),
        link(l),
        factory(f),
        executor(x),
        clock(c),
        log(lg),
        wake(std::move(w)),
        core(options.core) {}

  void Post(SessionEvent entry);
  void Take(LinkEvent event);
  void Take(FormingEnded ended);
  void Take(ApplyEnded ended);
  void Feed(const Event& event);
  void ListenInStep() ATOLL_EXCLUDES(step_mutex);
  // Runs `work`, which is no step, between calls of options.work_begins and work_ended. Requires a job.
  void BetweenSteps(const std::function<void()>& work);
  absl::StatusOr<StepOutcome> StepModel(const SampleBatch& batch, double rate);
  void DrainAnswers();
  void PublishHeartbeat();

  void Do(const worker::Say& e) { link.Say(e.message); }
  void Do(const worker::CloseStream& e) { link.CloseStream(e.reason); }
  void SetSpec(std::shared_ptr<const JobSpec> to);
  void Do(const worker::PrepareJob& e);
  void Do(const worker::ChangeSpec& e);
  void Do(const worker::ReleaseJob& e);
  void Do(const worker::FetchFragment& e);
  void Do(const worker::InstallFragment& e);
  void Do(const worker::FetchUpdate& e);
  void Do(const worker::DropFetches& e);
  void Do(const worker::ApplyUpdate& e);
  void Do(const worker::ResolveUpdate& e);
  void Do(const worker::AdoptOuter& e);
  void Do(const worker::BeginOptimizer& e);
  void Do(const worker::FormContribution& e);
  void Do(const worker::Upload& e);
  void Do(const worker::CancelUpload& e) { link.CancelUpload(e.fragment); }
  void Do(const worker::DropContribution& e);
  void Do(const worker::AddLease& e);
  void Do(const worker::RemoveLease& e);
  void Do(const worker::TakeStep& e);
  void Do(const worker::Evaluate& e);
  void Do(const worker::ScoreTask& e);
  void Do(const worker::AnswerLogs& e);
  void Do(const worker::Note& e);
  void Do(const worker::Exit& e) { exit = SessionExit{e.reason, e.text, device_lost}; }
  void Answer(Event event) { answers.push_back(std::move(event)); }
  // Abandons the job with the error message, because a failing model cannot be repaired here. If the
  // cause is a lost device, the worker leaves instead (LosesDevice), and the job is not at fault.
  void Break(const absl::Status& status);
  void BreakStep(const absl::Status& why);  // Break, for a step that could not be taken
  // Makes the worker leave. Its trained work is sent if possible; untrained samples return with the leases.
  void LoseDevice(const absl::Status& why);
  // Whether a device is lost, now or earlier. Calls LoseDevice if `status` is the first failure that shows it.
  bool LosesDevice(const absl::Status& status);
  double RateOf(const worker::TakeStep& e) const;
  void TellRefusal();
  worker::UpdateApplied Applied(FragmentVersion reached, const absl::StatusOr<ApplyVerdict>& verdict);
  void TellNotMade(uint64_t evaluation, const absl::Status& why);

  const SessionOptions options;
  Link& link;
  JobFactory& factory;
  Executor& executor;
  const Clock& clock;
  Log& log;
  const std::function<void()> wake;
  Inbox inbox;
  worker::Core core;
  std::deque<Event> answers;       // of effects, passed to the core in order
  std::deque<ApplyEnded> applied;  // received during a step, for the turn after it
  uint64_t errands = 0;            // number of calls of BeginForm and BeginApply so far

  JobId job;
  std::shared_ptr<const JobSpec> spec;
  std::unique_ptr<JobParts> parts;
  std::unique_ptr<Replicas> replicas;
  std::optional<SessionExit> exit;
  Duration data_wait{}, sync_wait{};
  Instant waiting_since = kNever, step_ended = kNever;
  JobStanding optimizer_at;  // state of the job after the optimizer's newest step
  bool leaving = false;      // leaving was requested, or a device is lost
  bool device_lost = false;
  bool told_refusal = false;  // TellRefusal has logged the reason, for this job
  bool worked = false;        // a step, evaluation or preparation ran in this turn
  bool in_step = false;       // in ListenInStep

  // All members above belong to the session's thread. While `stepping`, that thread waits for the
  // model and touches none of them; the holder of the mutex may.
  Mutex step_mutex;
  bool stepping ATOLL_GUARDED_BY(step_mutex) = false;
};

}  // namespace atl

#endif  // ATOLL_WORKER_SESSION_SESSION_STATE_H_
