// SPDX-License-Identifier: Apache-2.0
#include "worker/core/core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/plan/boot_lines.h"
#include "common/plan/limits.h"
#include "worker/core/state.h"

namespace atl::worker {

void Core::State::Dispatch(const Event& event) {
  struct Visitor {
    State& s;
    void operator()(const StreamUp&) { s.OnStreamUp(); }
    void operator()(const StreamDown& e) { s.OnStreamDown(e); }
    void operator()(const Received& e) { s.OnMessage(e.message); }
    void operator()(const JobPrepared& e) { s.OnJobPrepared(e); }
    void operator()(const JobBroken& e) { s.OnJobBroken(e); }
    void operator()(const JobDelayed& e) { s.OnJobDelayed(e); }
    void operator()(const FragmentFetched& e) { s.OnFragmentFetched(e); }
    void operator()(const FragmentFetchFailed& e) { s.OnFragmentFetchFailed(e); }
    void operator()(const FragmentInstalled& e) { s.OnFragmentInstalled(e); }
    void operator()(const UpdateFetched& e) { s.OnUpdateFetched(e); }
    void operator()(const UpdateFetchFailed& e) { s.OnUpdateFetchFailed(e); }
    void operator()(const UpdateApplied& e) { s.OnUpdateApplied(e); }
    void operator()(const ContributionFormed& e) { s.OnContributionFormed(e); }
    void operator()(const ContributionFailed& e) { s.OnContributionFailed(e); }
    void operator()(const UploadEnded& e) { s.OnUploadEnded(e); }
    void operator()(const StepDone& e) { s.OnStepDone(e); }
    void operator()(const SamplesMissing& e) {
      s.step_samples = 0;
      s.waiting.SetForSamples(e.reason, s.now);
    }
    void operator()(const HeldOutEvaluated& e) { s.OnHeldOutEvaluated(e); }
    void operator()(const TaskScored& e) { s.OnTaskScored(e); }
    void operator()(const EvaluationFailed& e) { s.OnEvaluationFailed(e); }
    void operator()(const EvaluationDelayed& e) { s.OnEvaluationDelayed(e); }
    void operator()(const LeaveWanted& e) { s.OnLeaveWanted(e); }
    void operator()(const Boundary&) { s.OnBoundary(); }
  };
  std::visit(Visitor{*this}, event);
}

Hello Core::State::MakeHello() const {
  Hello hello;
  hello.worker = options.worker;
  hello.program_version = options.program_version;
  hello.start_nonce = options.start_nonce;
  hello.incarnation = incarnation;
  hello.last_boot = boot;
  hello.device = options.device;
  hello.memory_bytes = options.memory_bytes;
  hello.evaluate_only = options.evaluate_only;
  if (phase == Phase::kIdle) return hello;
  hello.job = job;
  for (uint32_t p = 0; p < fragments.size(); ++p) {
    const Fragment& f = fragments[p];
    if (!f.absent()) hello.applied.push_back({FragmentIndex{p}, f.outer()});
    if (f.held() && !f.held()->dropped && !f.forming())
      hello.held.push_back({{FragmentIndex{p}, f.held()->version}, f.held()->header.digest});
  }
  hello.leases = Cursors();
  return hello;
}

void Core::State::OnStreamUp() {
  welcomed = false;
  refusing = false;
  failed.reset();
  SayIt(MakeHello());
}

// Cancels the uploads. The next Welcome, which may report the contributions' fates and a new boot number, decides
// which begin again.
void Core::State::OnStreamDown(const StreamDown& down) {
  if (welcomed) away_since = now;
  if (!refusing) Tell(NoteLevel::kWarning, "coordinator away", down.reason);  // the refusing coordinator was not away
  welcomed = false;
  for (uint32_t p = 0; p < fragments.size(); ++p) {
    if (fragments[p].StopUpload()) effects.push_back(CancelUpload{FragmentIndex{p}});
  }
}

void Core::State::OnMessage(const CoordinatorMessage& message) {
  if (phase == Phase::kLeft) return;
  // A drain is valid from any coordinator: fetches for a job have been stopped for good when it arrives.
  if (const auto* drain = std::get_if<DrainRequested>(&message)) return OnLeaveWanted({drain->reason});
  if (refusing) return;
  struct Visitor {
    State& s;
    // Messages about another job are older than a change of assignment.
    bool Mine(const JobId& of) const { return s.phase != Phase::kIdle && of == s.job; }
    void operator()(const Welcome& m) { s.OnWelcome(m); }
    void operator()(const Assignment& m) { s.OnAssignment(m); }
    void operator()(const Unassign& m) {
      if (s.failed && s.failed->first == m.job) s.failed.reset();  // a later assignment is a new attempt
      if (!s.prepared && !Mine(m.job)) return;                     // also frees memory kept for a new incarnation
      if (m.job != s.job) return;
      s.Tell(NoteLevel::kInfo, "left the job", absl::StrCat("job ", m.job.value, ": ", m.reason));
      s.DropJob(true);
    }
    void operator()(const LeaseGranted& m) {
      if (Mine(m.job)) s.OnLeaseGranted(m);
    }
    void operator()(const LeaseDenied& m) {
      if (Mine(m.job)) s.OnLeaseDenied(m);
    }
    void operator()(const LeaseRevoked& m) {
      if (Mine(m.job)) s.OnLeaseRevoked(m);
    }
    void operator()(const UpdatePublished& m) {
      if (Mine(m.job)) s.OnUpdatePublished(m);
    }
    void operator()(const ContributionRefused& m) {
      if (Mine(m.job)) s.OnContributionRefused(m);
    }
    void operator()(const PaceAssigned& m) {
      if (Mine(m.job)) s.OnPaceAssigned(m);
    }
    void operator()(const LinkJudged& m) {
      if (Mine(m.job)) s.Tell(m.admitted ? NoteLevel::kInfo : NoteLevel::kWarning, "link", m.reason);
    }
    void operator()(const EvaluationAssigned& m) {
      if (Mine(m.job)) s.OnEvaluationAssigned(m);
    }
    void operator()(const ClosingStarted& m) {
      if (Mine(m.job)) s.OnClosingStarted(m);
    }
    void operator()(const DrainRequested&) {}  // handled above
    void operator()(const LogsWanted& m) { s.effects.push_back(AnswerLogs{m}); }
    void operator()(const Refused& m) {
      if (m.retry) {
        s.refusing = true;  // sends nothing more on this stream
        s.Tell(NoteLevel::kWarning, "coordinator refused this worker for now", m.reason);
        return;
      }
      s.phase = Phase::kLeft;
      s.effects.push_back(Exit{ExitReason::kRefused, absl::StrCat("the coordinator refused this worker: ", m.reason)});
    }
  };
  std::visit(Visitor{*this}, message);
}

void Core::State::DoNotFollow(const std::string& why) {
  refusing = true;
  Tell(NoteLevel::kError, "coordinator rejected", why);
  effects.push_back(CloseStream{why});
}

void Core::State::OnWelcome(const Welcome& welcome) {
  if (welcome.boot < boot) return DoNotFollow(OlderStateLine(welcome.boot, boot) + kFollowOtherwise);
  const bool told = boot_nonce != 0 && welcome.boot_nonce != 0;
  if (welcome.boot == boot && told && welcome.boot_nonce != boot_nonce) {
    return DoNotFollow(absl::StrCat("the coordinator has boot number ", boot.value,
                                    ", like another coordinator that this worker has followed: both run on copies of "
                                    "one state directory; stop one of them",
                                    kFollowOtherwise));
  }
  if (boot.value > 0 && LineOf(welcome.boot) != LineOf(boot)) LeaveLine(welcome.boot);
  boot_nonce = welcome.boot_nonce;
  boot = welcome.boot;
  incarnation = welcome.incarnation;
  heartbeat = welcome.heartbeat_interval;
  membership = welcome.membership_timeout;
  welcomed = true;
  if (!welcome.resumed) {
    VoidIncarnation();
    if (prepared || phase == Phase::kPreparing) release_at = now + membership;
    return;
  }
  for (const Welcome::Fate& fate : welcome.fates) OnFate(fate);
  // A contribution formed after Hello has no fate yet; one that is still being formed is sent later.
  for (uint32_t p = 0; p < fragments.size(); ++p) {
    const Fragment& f = fragments[p];
    if (f.held() && f.held()->dropped) SayDropped(p);
    if (f.held() && !f.forming() && !f.HasUpdate() && !f.held()->uploading && !f.held()->accepted) StartUpload(p);
  }
}

// The coordinator was restored from a backup: versions, specs and leases with the same names may differ now.
void Core::State::LeaveLine(BootNumber restored) {
  Tell(NoteLevel::kWarning, "coordinator restored",
       absl::StrCat("the coordinator was restored from a backup (boot number ", restored.value, " after ", boot.value,
                    "): this worker discards its state and fetches it again"));
  if (phase != Phase::kIdle || prepared) DropJob(false);
}

void Core::State::OnFate(const Welcome::Fate& fate) {
  const uint32_t p = fate.target.fragment.value;
  if (p >= fragments.size()) return;
  Fragment& f = fragments[p];
  if (!f.held() || f.forming() || f.held()->version != fate.target.version) return;
  switch (fate.fate) {
    case ContributionFate::kUnknown: {  // sent again like all unsent ones
      if (!f.held()->accepted || f.HasUpdate()) break;
      // An acknowledged contribution is durable, but the disk may have been damaged since.
      f.LoseAcceptance();
      Tell(NoteLevel::kWarning, "contribution sent again",
           absl::StrCat("fragment ", p, ": the coordinator had accepted the contribution to version ",
                        f.held()->version.value, ", but has lost it: its round log was truncated or removed"));
      break;
    }
    case ContributionFate::kAccepted: f.Accept(now); break;
    case ContributionFate::kCommitted: f.Commit(now); break;
    case ContributionFate::kRefused: MarkRefused(p, "it was excluded while the connection was down"); break;
  }
}

void Core::State::OnLeaveWanted(const LeaveWanted& wanted) {
  if (leaving || phase == Phase::kLeft) return;
  leaving = Departure{wanted.reason, now, now + options.leave_grace};
  Tell(NoteLevel::kInfo, "leaving", wanted.reason);
}

Core::Core(CoreOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Core::~Core() = default;

Effects Core::Step(const Event& event, Instant now) {
  ATOLL_CHECK(now >= state_->now, "time never goes back");
  state_->now = now;
  state_->effects.clear();
  // Any event may allow more at the next boundary; the boundary itself computes when to look again.
  state_->wake = std::holds_alternative<Boundary>(event) ? kNever : now;
  if (state_->phase != Phase::kLeft) state_->Dispatch(event);
  if (state_->phase == Phase::kLeft) state_->wake = kNever;
  return std::move(state_->effects);
}

// Excludes refusals, which withdraw a contribution, and revoked leases, which discard drift and samples of the step.
bool Core::HeardInStep(const Event& event) {
  if (const auto* received = std::get_if<Received>(&event)) {
    const CoordinatorMessage& message = received->message;
    return std::holds_alternative<UpdatePublished>(message) || std::holds_alternative<LeaseGranted>(message) ||
           std::holds_alternative<LeaseDenied>(message);
  }
  if (const auto* ended = std::get_if<UploadEnded>(&event)) return ended->result == UploadResult::kAccepted;
  return std::holds_alternative<ContributionFormed>(event) || std::holds_alternative<UpdateFetched>(event);
}

Instant Core::NextWake() const { return state_->wake; }

WorkerActivity Core::activity() const {
  const State& s = *state_;
  if (s.leaving || s.phase == Phase::kLeft) return WorkerActivity::kDraining;
  if (s.phase == Phase::kIdle) return WorkerActivity::kIdle;
  if (s.phase != Phase::kActive) return WorkerActivity::kFetching;
  if (s.evaluation && s.evaluation->running) return WorkerActivity::kEvaluating;
  return s.waiting.clause().empty() ? WorkerActivity::kTraining : WorkerActivity::kWaiting;
}

std::string Core::waiting_for(Instant now) const {
  const State& s = *state_;
  if (s.waiting.clause().empty()) return "";
  return absl::StrCat(s.waiting.clause(), ", for ", (now - s.waiting.since()).ns / 1'000'000'000, " s");
}

Heartbeat Core::MakeHeartbeat(Instant now) const {
  const State& s = *state_;
  Heartbeat h;
  h.activity = activity();
  if (s.phase == Phase::kIdle || s.phase == Phase::kLeft) return h;
  h.job = s.job;
  h.step = s.phase == Phase::kActive ? s.Clock() : s.assigned_clock.step;
  h.tokens_total = s.tokens_total;
  h.step_ns = s.step_ns;
  h.loss_micro = s.loss_micro;
  if (s.phase == Phase::kActive && s.spec->sync.pace == Pace::kBalanced) h.period_steps = s.pace.own_steps();
  h.waiting_for = waiting_for(now);
  return h;
}

Duration Core::heartbeat_interval() const { return state_->heartbeat; }
BootNumber Core::boot() const { return state_->boot; }
Incarnation Core::incarnation() const { return state_->incarnation; }
const JobId& Core::job() const { return state_->job; }
uint64_t Core::clock_step() const { return state_->Clock(); }
uint64_t Core::samples_held() const { return state_->Unused(); }
bool Core::left() const { return state_->phase == Phase::kLeft; }

std::vector<FragmentStatus> Core::fragments() const {
  std::vector<FragmentStatus> out;
  for (const Fragment& f : state_->fragments) {
    out.push_back({f.outer(), f.applying() != nullptr || f.absent(), f.held().has_value(),
                   f.held() && f.held()->accepted, f.missed(), f.drift().steps});
  }
  return out;
}

// A lease is removed once one fragment has contributed all of it, so that fragment's drift is
// within the remaining leases; other fragments may hold more.
void Core::State::CheckDrift() const {
  if (phase != Phase::kActive) return;
  uint64_t trained = 0, least = UINT64_MAX;
  for (const Lease& lease : leases) trained += lease.cursor - lease.range.begin;
  for (const Fragment& f : fragments) least = std::min(least, f.absent() ? 0 : f.drift().tokens);
  ATOLL_CHECK(fragments.empty() || least <= trained * spec->data.sequence_length,
              "the drift is trained on leased samples alone");
  const bool constant = spec->sync.pace == Pace::kUniform && revision <= 1;
  ATOLL_CHECK(!constant || taken - applied_at <= uint64_t{spec->sync.max_unsynced_periods} * Period(),
              "no step is taken beyond sync.max_unsynced_periods");
}

void Core::CheckInvariants() const {
  const State& s = *state_;
  s.CheckDrift();
  for (uint32_t p = 0; p < s.fragments.size(); ++p) {
    const Fragment& f = s.fragments[p];
    f.CheckInvariants();
    if (s.evaluation && s.evaluation->running) {
      const bool rests = f.applying() == nullptr && !f.leaping();
      ATOLL_CHECK(rests && s.EvaluationNeeds(p), "the parameters that are evaluated stay until that is over");
    }
    const bool own = !f.held() || f.held()->dropped || f.held()->header.incarnation == s.incarnation;
    ATOLL_CHECK(own, "what is held was trained by the incarnation that the worker has");
  }
  for (const Lease& lease : s.leases) {
    ATOLL_CHECK(lease.range.begin <= lease.cursor && lease.cursor <= lease.range.end, "a cursor stays in its lease");
  }
}

}  // namespace atl::worker
