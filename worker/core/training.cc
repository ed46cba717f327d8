// SPDX-License-Identifier: Apache-2.0
// The order of work at a step boundary: leave, apply, evaluate, close, send, lease, step.
#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "worker/core/state.h"

namespace atl::worker {
namespace {

// Whether work that can still be sent is being formed or uploaded, or waits for an update in flight
// or, without `welcomed`, for the coordinator.
bool OwesWork(const Fragment& f, bool welcomed) {
  const bool merges = f.IsOutdated() || f.unsettled() != nullptr;  // before its work can be sent
  if (f.forming() || (f.held() && f.held()->uploading) || (merges && f.Unsent() > 0)) return true;
  return !welcomed && (f.held() ? !f.held()->accepted && !f.held()->dropped : f.Unsent() > 0);
}

// Describes the work found by OwesWork.
std::string WorkOf(const Fragment& f) {
  if (f.forming()) return "its contribution is being formed";
  if (f.held() && !f.held()->accepted && !f.held()->dropped) return "its contribution is not accepted";
  if (f.IsOutdated()) return "an update is in flight";
  return absl::StrCat("its last ", f.Unsent(), " steps are not sent");
}

// Empty: nothing.
std::string Owed(const std::vector<Fragment>& fragments, bool welcomed) {
  std::string owed;
  for (uint32_t p = 0; p < fragments.size(); ++p) {
    const Fragment& f = fragments[p];
    if (!OwesWork(f, welcomed)) continue;
    absl::StrAppend(&owed, owed.empty() ? "" : ", ", "fragment ", p, ": ", WorkOf(f));
  }
  return owed;
}

const char* WhyLate(const Held& held, bool welcomed) {
  if (!welcomed) return ", because the coordinator is unreachable";
  if (held.dropped) return ", for which the job drops this worker's sync";
  return held.accepted ? ": its round is not published" : ": this worker's contribution is not accepted yet";
}

}  // namespace

void Core::State::OnBoundary() {
  if (leaving) {
    ContinueLeaving();
    return;
  }
  if (release_at != kNever) ReleaseInTime();
  RepeatFetches();
  if (phase != Phase::kActive) return;
  if (step_samples > 0 || Busy()) return;
  if (evaluation && evaluation->running) {
    ContinueEvaluation();
    return;
  }
  CatchUpClock();
  ApplyReady();
  if (Busy()) return;
  if (TryEvaluate()) return;
  if (CatchingUp()) {
    SetWaiting("updates since the snapshot that was fetched");
    return;
  }
  if (closing) {
    ContinueClosing();
    return;
  }
  if (StandsStill()) SendWhatIsLeft();
  SendDue();
  if (Busy()) return;
  if (StepsForbidden()) {
    if (evaluation) return;
    if (options.evaluate_only) {
      SetWaiting("");
    } else if (StopReached()) {
      SetWaiting(absl::StrCat("the end of job ", job.value, ": its last step ", Clock(), " is done"));
    } else {
      SetWaiting(absl::StrCat("an update: ", taken - applied_at, " steps since the last one, the limit"));
    }
    return;
  }
  WishForLeases();
  if (WaitForUpdates()) return;
  TryStep();
}

// Whether a fragment is being installed, or an update applied that does not run in parallel with steps: the boundary
// waits for it. A leaving worker takes no steps, so for it every update being applied counts.
bool Core::State::Busy() const {
  return std::any_of(fragments.begin(), fragments.end(), [this](const Fragment& f) {
    const Applying* const move = f.applying();
    return f.installing() || (move != nullptr && (!move->during_steps || move->overtaken || leaving));
  });
}

// A joiner takes its first step on the newest versions, not on those of the snapshots.
bool Core::State::CatchingUp() const {
  return taken == 0 &&
         std::any_of(fragments.begin(), fragments.end(), [](const Fragment& f) { return f.IsOutdated(); });
}

// Advances the clock if the job is two periods ahead: by whole periods, so that the phase of the schedule stays. One
// period remains, because commits can be up to a period ahead of their apply steps.
void Core::State::CatchUpClock() {
  if (job_clock < Clock() + 2 * uint64_t{Period()}) return;
  const uint64_t jump = ((job_clock - Clock()) / Period() - 1) * Period();
  clock_offset += jump;
  Tell(NoteLevel::kInfo, "clock advanced", absl::StrCat("from step ", Clock() - jump, " to ", Clock()));
}

// While the coordinator was away, each worker continued at its own speed and passed send steps without sending.
// With very different clocks, two workers could block each other: each would wait at one fragment for a
// contribution that the other sends only at its next send step there. So a worker that ran on takes over the
// job's clock again. A step's send is not repeated, whether or not its update has arrived, because the others
// do not repeat theirs. A held contribution is awaited correspondingly later, and its merge overwrites no
// training. If its update is already in the outer copy (applied early for an evaluation), it is merged at its
// step in the role in which it was applied.
void Core::State::SetClockBack(uint64_t to) {
  if (Clock() <= to) return;
  const uint64_t steps = Clock() - to;
  Tell(NoteLevel::kInfo, "clock set back",
       absl::StrCat("from step ", Clock(), " to ", to, ", the job's step; the steps beyond are contributed"));
  set_back += steps;
  for (Fragment& f : fragments) f.SetClockBack(pace.StepsFor(steps));
}

bool Core::State::UnsyncedLimitReached() const {
  return taken - applied_at >= uint64_t{spec->sync.max_unsynced_periods} * pace.own_steps();
}

bool Core::State::StopReached() const { return spec->stop.inner_steps > 0 && Clock() >= spec->stop.inner_steps; }

bool Core::State::StepsForbidden() const {
  return options.evaluate_only || closing || leaving || StopReached() || UnsyncedLimitReached();
}

// Whether neither a step nor an update with this worker's part can come, so that others may wait
// for its unsent work. An accepted contribution's round at one fragment may wait for a worker that
// waits for this one at another fragment: such rounds get the time of an apply step's wait.
bool Core::State::StandsStill() {
  const bool no_samples = wish.denied && Unused() == 0;
  if (!welcomed || StopReached() || !(no_samples || UnsyncedLimitReached())) return false;
  Instant from{};
  for (const Fragment& f : fragments) {
    if (!f.IsUpToDate() || f.due() || (f.held() && !f.held()->accepted)) return false;
    if (f.held()) from = std::max(from, f.held()->accepted_at + ApplyPatience());
  }
  if (now >= from) return true;
  WakeAt(from);
  return false;
}

// Marks the fragments with unsent drift for sending, unless a contribution to their version was refused. If no
// fragment has drift or a contribution, the drift was discarded: returns its samples.
void Core::State::SendWhatIsLeft() {
  const bool any = std::any_of(fragments.begin(), fragments.end(),
                               [](const Fragment& f) { return f.held() || f.drift().steps > 0; });
  if (!any) return ReturnLeases();
  for (Fragment& f : fragments) {
    if (!f.held() && f.drift().steps > 0 && !f.TriedHere()) f.SendNow();
  }
}

// At an apply step training waits for the update, up to a deadline; then it continues, and the update comes
// late. The application of an arrived update has no deadline, because it ends by itself.
bool Core::State::WaitForUpdates() {
  for (uint32_t p = 0; p < fragments.size(); ++p) {
    Fragment& f = fragments[p];
    if (!f.held() || taken != f.held()->apply_at) continue;
    const Held& held = *f.held();
    const std::string version = absl::StrCat("version ", held.version.value + 1, " of fragment ", p);
    if (f.applying() != nullptr) {
      SetWaiting(absl::StrCat(version, ", which is being applied"));
      return true;
    }
    const Instant until = f.Wait(now, ApplyPatience(), welcomed ? kNever : away_since + heartbeat);
    if (now < until) {
      WakeAt(until);
      SetWaiting(absl::StrCat(version, held.dropped    ? ", for which the job drops this worker's sync"
                                       : held.accepted ? ""
                                                       : ": this worker's contribution is not accepted yet"));
      return true;
    }
    if (!f.ReportLate()) continue;
    Tell(NoteLevel::kWarning, "update overdue",
         absl::StrCat("waited ", ToSeconds(now - held.waits_since), " s for ", version, WhyLate(held, welcomed),
                      "; training continues"));
  }
  return false;
}

// ---- steps --------------------------------------------------------------------------------------------------------

uint64_t Core::State::Unused() const {
  uint64_t unused = 0;
  for (const Lease& lease : leases) unused += lease.range.end - lease.cursor;
  return unused;
}

void Core::State::TryStep() {
  const uint64_t batch = spec->batch.sequences_per_step;
  const uint64_t unused = Unused();
  // The last samples of a dataset may be fewer than a batch.
  const uint64_t samples = unused >= batch ? batch : (wish.denied ? unused : 0);
  if (samples == 0) {
    SetWaiting(wish.denied ? absl::StrCat("a lease: ", wish.reason)
                           : absl::StrCat("a lease of ", wish.samples, " samples"));
    return;
  }
  SetWaiting("");
  step_samples = static_cast<uint32_t>(samples);
  const uint32_t asked = spec->sync.join_warmup_steps;
  // The workers that start a job are no joiners.
  const uint32_t ramp = clock_offset == 0 ? 0 : (asked > 0 ? asked : Period() / 2);
  effects.push_back(TakeStep{Clock(), taken, ramp, step_samples});
}

// With a balanced pace, sets the clock steps per further step. The clock's present value stays.
void Core::State::OnPaceAssigned(const PaceAssigned& order) {
  if (phase != Phase::kActive || spec->sync.pace != Pace::kBalanced) return;
  const uint32_t before = pace.own_steps();
  pace.SetOwnSteps(order.period_steps);
  if (pace.own_steps() == before) return;
  Tell(NoteLevel::kInfo, "pace",
       absl::StrCat("job ", job.value, ": ", pace.own_steps(), " own steps in a period of ", Period(), ", ", before,
                    " before"));
}

void Core::State::OnStepDone(const StepDone& done) {
  if (step_samples == 0 || phase != Phase::kActive) return;
  uint64_t left = step_samples;
  step_samples = 0;
  waiting.OnStepDone();
  for (Lease& lease : leases) {
    const uint64_t used = std::min(left, lease.range.end - lease.cursor);
    lease.cursor += used;
    left -= used;
  }
  ATOLL_CHECK(left == 0, "a step trains on leased samples only");
  const uint64_t before = Clock();
  ++taken;
  gained += pace.Advance() - 1;
  step_ns = step_ns == 0 ? done.took.ns : (step_ns * 7 + done.took.ns) / 8;
  for (uint32_t p = 0; p < fragments.size(); ++p) {
    if (schedule->NextSendStep(FragmentIndex{p}, before + 1) <= Clock()) fragments[p].SendStepPassed();
  }
  if (!done.finite) {
    Tell(NoteLevel::kWarning, "step not finite",
         absl::StrCat("job ", job.value, " step ", Clock(), ": loss or gradient"));
    if (++non_finite >= kNonFiniteInARow) FailNonFinite();
    return;
  }
  non_finite = 0;
  tokens_total += done.tokens;
  loss_micro = done.loss_micro;
  for (Fragment& f : fragments) f.Train(done.tokens, done.loss_micro);
}

void Core::State::FailNonFinite() {
  const std::string why =
      absl::StrCat("loss or gradient was not finite in ", kNonFiniteInARow, " steps in a row, up to step ", Clock(),
                   " of job ", job.value, ": check the learning rate and the data of these leases");
  SayIt(JobFailure{job, why, false});
  Leave(ExitReason::kNonFinite, why);
}

// ---- leases -------------------------------------------------------------------------------------------------------

std::vector<LeaseCursor> Core::State::Cursors() const {
  std::vector<LeaseCursor> out;
  for (const Lease& lease : leases) out.push_back({lease.id, lease.cursor});
  return out;
}

void Core::State::ReturnLeases() {
  if (leases.empty()) return;
  SayIt(LeaseReturn{job, Cursors()});
  for (const Lease& lease : leases) effects.push_back(RemoveLease{lease.id});
  leases.clear();
}

// Requests samples for all the steps that may be taken without an update, when half of them are used.
void Core::State::WishForLeases() {
  if (!welcomed) return;
  uint64_t steps = uint64_t{spec->sync.max_unsynced_periods} * pace.own_steps();
  if (spec->stop.inner_steps > 0) steps = std::min(steps, pace.StepsFor(spec->stop.inner_steps - Clock()));
  const uint64_t wanted = steps * spec->batch.sequences_per_step;
  const uint64_t unused = Unused();
  const bool repeat_due = now >= wish.asked_at + kLeaseRepeat;
  if (wish.open) {
    if (repeat_due) {
      wish.asked_at = now;
      SayIt(LeaseRequest{job, wish.request, wish.samples});
    }
    WakeAt(wish.asked_at + kLeaseRepeat);
    return;
  }
  // Below one batch, requests the remaining samples for the last step.
  if (unused >= wanted || (unused * 2 > wanted && unused >= spec->batch.sequences_per_step)) return;
  if (wish.denied && !repeat_due && !wish.again) {
    WakeAt(wish.asked_at + kLeaseRepeat);
    return;
  }
  wish.open = true;
  wish.again = false;
  ++wish.request;
  wish.samples = wanted;
  wish.asked_at = now;
  SayIt(LeaseRequest{job, wish.request, wish.samples});
  WakeAt(wish.asked_at + kLeaseRepeat);
}

void Core::State::OnLeaseGranted(const LeaseGranted& granted) {
  if (phase != Phase::kActive || granted.range.size() == 0) return;
  const auto known = std::any_of(leases.begin(), leases.end(), [&](const Lease& l) { return l.id == granted.lease; });
  const bool wanted = wish.open && granted.request == wish.request;
  // A request that was sent twice may be denied and then granted: this worker alone holds the lease.
  if (known || (!wanted && granted.lease <= wish.newest)) return;
  if (wanted) wish.open = false;
  wish.denied = false;
  wish.newest = std::max(wish.newest, granted.lease);
  leases.push_back({granted.lease, granted.range, granted.range.begin});
  effects.push_back(AddLease{granted.lease, granted.range, granted.range.begin});
}

void Core::State::OnLeaseDenied(const LeaseDenied& denied) {
  if (!wish.open || denied.request != wish.request) return;
  wish.open = false;
  wish.denied = true;
  wish.reason = denied.reason;
  wish.asked_at = now;
}

void Core::State::OnLeaseRevoked(const LeaseRevoked& revoked) {
  bool trained = false;
  for (const LeaseId id : revoked.leases) {
    const auto lease = std::find_if(leases.begin(), leases.end(), [&](const Lease& l) { return l.id == id; });
    if (lease == leases.end()) continue;
    trained = trained || lease->cursor > lease->range.begin;
    effects.push_back(RemoveLease{id});
    leases.erase(lease);
  }
  // Untrained samples are in no worker's drift: returning them changes nothing here.
  if (trained) TakeOuterEverywhere(absl::StrCat("leases were taken back (", revoked.reason, ")"));
}

// ---- the end ------------------------------------------------------------------------------------------------------

void Core::State::OnClosingStarted(const ClosingStarted& started) {
  if (phase != Phase::kActive) return;
  closing_said = false;  // requested again: the final Ready was taken for the answer to an assignment
  if (closing) return;
  closing = started;
  for (Fragment& f : fragments) f.SendNothing();
  for (uint32_t p = 0; p < fragments.size() && p < started.versions.size(); ++p) {
    if (started.versions[p] > fragments[p].outer()) AddPending(p, {started.versions[p], Digest{}, false, false, false});
  }
  Tell(NoteLevel::kInfo, "closing", absl::StrCat("job ", job.value, " ends at step ", started.stop_step));
}

// Contributes the remaining drift of every fragment, without overlap. Once all of it is accepted, reports that
// nothing more comes, so that no round waits for this worker. After a refusal the work goes into the next
// version, if one comes in time: without other contributions to that round it never would.
void Core::State::ContinueClosing() {
  SetWaiting(absl::StrCat("the closing rounds of job ", job.value));
  if (closing_said) return;
  bool all_said = true;
  for (uint32_t p = 0; p < fragments.size() && p < closing->versions.size(); ++p) {
    const Fragment& f = fragments[p];
    const bool settled = f.IsUpToDate() && f.outer() >= closing->versions[p];
    // The closing rounds drop nothing: the work of a dropped sync is contributed now.
    if (settled && f.held() && f.held()->dropped) Withdraw(p);
    if (settled && MayForm(f)) Form(p, true);
    const bool last_is_accepted = f.held() && f.held()->accepted && f.held()->header.steps == f.drift().steps;
    const bool waits_for_next = settled && !f.held() && f.tried() && f.drift().steps > 0 && now < f.next_version_by();
    if (waits_for_next) WakeAt(f.next_version_by());
    if (waits_for_next || (f.held() ? !last_is_accepted : !settled)) all_said = false;
  }
  if (!all_said || !welcomed) return;
  closing_said = true;
  SayReady(std::max(Clock(), closing->stop_step));
}

// Within the grace: waits for a coordinator that is away, contributes on top of applied updates,
// then waits for the uploads. Work after a contribution to an open round is returned with the
// leases, because that round may wait for others.
void Core::State::ContinueLeaving() {
  if (step_samples > 0 || (evaluation && evaluation->asked)) return;
  EndEvaluation();
  const bool in_time = phase == Phase::kActive && now < leaving->deadline;
  if (in_time && welcomed) {
    if (Busy()) return;
    ApplyReady();
    if (Busy()) return;
    FormLastContributions();
  }
  const bool owes =
      std::any_of(fragments.begin(), fragments.end(), [&](const auto& f) { return OwesWork(f, welcomed); });
  if (in_time && owes) {
    SetWaiting(welcomed ? "its contributions to be sent, before leaving"
                        : "the coordinator, to send its contributions before leaving");
    WakeAt(leaving->deadline);
    return;
  }
  if (const std::string owed = Owed(fragments, welcomed); !owed.empty()) {
    Tell(NoteLevel::kWarning, "left with unsent work",
         absl::StrCat("waited ", ToSeconds(now - leaving->began), " of the ", ToSeconds(options.leave_grace),
                      " s for leaving", welcomed ? "; " : ", the coordinator is unreachable; ", owed));
  }
  Leave(ExitReason::kLeft, leaving->reason);
}

void Core::State::FormLastContributions() {
  for (uint32_t p = 0; p < fragments.size(); ++p) {
    Fragment& f = fragments[p];
    f.SendNothing();
    if (MayForm(f) && !Drops(p)) Form(p, true);
  }
}

void Core::State::Leave(ExitReason reason, const std::string& text) {
  // Releasing a job may take long while the moments are saved; no worker needs to wait for this one meanwhile.
  for (uint32_t p = 0; p < fragments.size(); ++p) Withdraw(p);
  ReturnLeases();
  SayIt(Leaving{text});
  if (phase != Phase::kIdle) DropJob(false);
  phase = Phase::kLeft;
  effects.push_back(Exit{reason, text});
}

}  // namespace atl::worker
