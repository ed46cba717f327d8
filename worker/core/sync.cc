// SPDX-License-Identifier: Apache-2.0
// Sends and applies: decides when a contribution is formed, and when an update changes the outer copy and the
// local parameters (docs/design.md section 3: Send, Apply, Not a contributor; section 6: Late).
#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/plan/limits.h"
#include "worker/core/state.h"

namespace atl::worker {

// ---- updates become known and are fetched -------------------------------------------------------------------------

void Core::State::OnUpdatePublished(const UpdatePublished& published) {
  const uint32_t p = published.reached.fragment.value;
  if (phase == Phase::kPreparing && p < assigned.size())
    assigned[p] = std::max(assigned[p], published.reached.version);  // the version that the fetch will need
  if (p >= fragments.size()) return;
  const auto& names = published.contributors;
  const auto mine = std::find(names.begin(), names.end(), options.worker);
  const bool told = mine != names.end() && published.digests.size() == names.size();
  if (published.clock_step > job_clock) job_clock = published.clock_step;
  AddPending(p, {published.reached.version, published.hash, mine != names.end(), false, false, published.clock_step,
                 told ? published.digests[static_cast<size_t>(mine - names.begin())] : Digest{}});
}

void Core::State::AddPending(uint32_t p, const Pending& wanted) {
  if (fragments[p].Hear(wanted) && !LeapForBytes(p)) FillGaps(p);
}

void Core::State::FillGaps(uint32_t p) {
  fragments[p].FillGaps();
  StartFetches(p);
}

void Core::State::StartFetches(uint32_t p) {
  for (const Version version : fragments[p].StartFetches())
    effects.push_back(FetchUpdate{job, {FragmentIndex{p}, version}});
}

void Core::State::OnUpdateFetched(const UpdateFetched& fetched) {
  const uint32_t p = fetched.reached.fragment.value;
  if (p < fragments.size()) fragments[p].UpdateFetched(fetched.reached.version);
}

// The update is no longer stored, or damaged: fetches the whole fragment, at once or after a running evaluation.
void Core::State::OnUpdateFetchFailed(const UpdateFetchFailed& failed_fetch) {
  const uint32_t p = failed_fetch.reached.fragment.value;
  if (p >= fragments.size() || fragments[p].absent() || !fragments[p].Fetches(failed_fetch.reached.version)) return;
  Tell(NoteLevel::kWarning, "update not fetched",
       absl::StrCat("fragment ", p, " version ", failed_fetch.reached.version.value, ": ", failed_fetch.reason,
                    EvaluationNeeds(p) ? "; when the evaluation is over, the whole fragment is fetched"
                                       : "; fetching the whole fragment"));
  FetchWhole(p);
}

// Fetches fragment p whole, after a pause if that was already tried for this version. Discards its drift and
// residual: its local parameters become the outer copy. The caller logs the reason.
void Core::State::Heal(uint32_t p) {
  Withdraw(p);
  effects.push_back(DropFetches{FragmentIndex{p}});
  if (fragments[p].Lose(now + kFetchRepeat)) effects.push_back(FetchFragment{job, FragmentIndex{p}});
}

// ---- updates are applied ------------------------------------------------------------------------------------------

// Whether an update may change the local parameters now. A contributor's merge overwrites the steps since the send,
// so it waits for the apply step, unless no step can come. In other roles these steps are kept, without a wait.
bool Core::State::MaySettle(const Fragment& f, Standing standing) const {
  const bool no_samples = wish.denied && Unused() == 0;
  return standing != Standing::kContributor || taken >= f.held()->apply_at || StepsForbidden() || no_samples;
}

// An evaluation needs the outer copies at exact versions: it applies updates up to them early, and
// delays later ones.
bool Core::State::MayApply(uint32_t p, Standing standing) const {
  const Fragment& f = fragments[p];
  if (evaluation && p < evaluation->assigned.versions.size()) {
    return f.outer() < evaluation->assigned.versions[p];
  }
  return MaySettle(f, standing);
}

// An update that arrives before its apply step changes the outer copy at once, in parallel with the
// remaining steps, so that only the local parameters are merged at the apply step (docs/adr/0026).
// An evaluation overrides this with its own versions.
void Core::State::ApplyReady() {
  for (uint32_t p = 0; p < fragments.size(); ++p) {
    Fragment& f = fragments[p];
    if (const Unsettled* const waits = f.unsettled(); waits != nullptr && MaySettle(f, waits->standing)) Settle(p);
    if (!f.resting() || f.pending().empty() || !f.pending().front().fetched) continue;
    const Pending& next = f.pending().front();
    const Standing standing = f.StandingIn(next);
    const bool due = MayApply(p, standing);
    if (!due && evaluation) continue;
    f.BeginApply(standing, !due);
    effects.push_back(ApplyUpdate{{FragmentIndex{p}, next.reached}, standing, next.hash, !due});
  }
}

void Core::State::OnUpdateApplied(const UpdateApplied& applied) {
  const uint32_t p = applied.reached.fragment.value;
  if (p >= fragments.size() || fragments[p].applying() == nullptr) return;
  Fragment& f = fragments[p];
  SayIt(Applied{job, applied.reached, applied.hash_matches});
  if (!applied.hash_matches) {
    Tell(NoteLevel::kWarning, "replica deviates",
         absl::StrCat("fragment ", p, " version ", applied.reached.version.value,
                      " has another hash here than at the coordinator; fetching the whole fragment"));
    Heal(p);
    return;
  }
  f.Applied(applied.reached.version);
  wish.again = wish.denied;  // the obstacle may be committed now
  StartFetches(p);
  if (f.unsettled() == nullptr) {  // overtaken: nothing remains to be merged
    effects.push_back(AdoptOuter{FragmentIndex{p}});
    return;
  }
  if (MaySettle(f, f.unsettled()->standing)) Settle(p);
}

void Core::State::Settle(uint32_t p) {
  Fragment& f = fragments[p];
  const Standing standing = f.unsettled()->standing;
  const bool late = standing == Standing::kContributor && taken > f.held()->apply_at;
  effects.push_back(ResolveUpdate{FragmentIndex{p}, standing, late, f.held() && f.held()->dropped});
  const Settlement done = f.Settle();
  applied_at = taken;
  if (late && !done.held->dropped) {
    Tell(NoteLevel::kInfo, "update arrived late",
         absl::StrCat("fragment ", p, " version ", f.outer().value, " reached the outer copy ",
                      taken - done.held->apply_at, " steps after its apply step and was not merged"));
  }
  if (done.held && done.held->uploading) effects.push_back(CancelUpload{FragmentIndex{p}});
  if (standing != Standing::kNotContributor) EndLeases(done.held->header.cursors);
  if (done.missed && f.missed() >= spec->sync.max_missed)
    TakeOuterEverywhere(absl::StrCat(f.missed(), " syncs in a row were missed"));
}

// Removes leases that are trained and contributed completely: they are consumed, and need no further message.
void Core::State::EndLeases(const std::vector<LeaseCursor>& contributed) {
  for (const LeaseCursor& sent : contributed) {
    const auto lease = std::find_if(leases.begin(), leases.end(), [&](const Lease& l) { return l.id == sent.lease; });
    if (lease == leases.end() || sent.cursor != lease->range.end) continue;
    effects.push_back(RemoveLease{lease->id});
    leases.erase(lease);
  }
}

// Discards all uncontributed work: takes the outer copy, clears the residual, returns the leases.
void Core::State::TakeOuterEverywhere(const std::string& why) {
  Tell(NoteLevel::kWarning, "drift discarded",
       absl::StrCat("job ", job.value, ": ", why, "; this worker continues from the outer copy with new leases"));
  for (uint32_t p = 0; p < fragments.size(); ++p) {
    Withdraw(p);
    if (fragments[p].TakeOuter()) effects.push_back(AdoptOuter{FragmentIndex{p}});
  }
  applied_at = taken;  // no remaining step waits for an update
  ReturnLeases();
}

// ---- contributions ------------------------------------------------------------------------------------------------

// After a refusal, waits for the next version made by the others, but with a limit: the next send
// step, or the end of the wait, tries the same version again. Otherwise a round with only refused
// contributions would never close.
bool Core::State::MayForm(const Fragment& f) const {
  const bool waits = closing || (!f.due() && now < f.next_version_by());  // the end of a job has its own rule
  return f.resting() && !f.held() && !(f.TriedHere() && waits) && !f.IsOutdated() && f.drift().steps > 0;
}

void Core::State::SendDue() {
  for (uint32_t p = 0; p < fragments.size(); ++p) {
    Fragment& f = fragments[p];
    if (!closing && !f.held() && f.TriedHere() && f.drift().steps > 0) {
      if (now < f.next_version_by()) {
        WakeAt(f.next_version_by());
      } else {
        f.SendNow();
      }
    }
    f.ForgetServed(Clock());
    if (!f.due() && !f.send_now()) continue;
    // Catches up first: a contribution against an outdated version would be refused.
    if (f.IsOutdated() || f.unsettled() != nullptr) continue;
    const bool may = MayForm(f);
    if (f.due() && !may && f.held()) {
      ran_on = ran_on || !welcomed;
      Tell(NoteLevel::kInfo, "send skipped",
           absl::StrCat("fragment ", p, ": the contribution to version ", f.held()->version.value, " is not resolved"));
    }
    const bool retry = f.send_now() && !f.due();
    f.SendNothing();
    if (!may) continue;
    if (!retry && SkipsForOthers(p)) continue;
    if (Drops(p)) {
      DropSync(p);
      continue;
    }
    Form(p, retry);
  }
}

// The contribution is held from now on, because its content is fixed; the bytes follow.
void Core::State::Form(uint32_t p, bool retry) {
  Fragment& f = fragments[p];
  Held held;
  held.version = f.outer();
  held.loss_sum_micro = f.drift().loss_sum_micro;
  held.apply_at = taken + (closing ? 0 : StepsToApply(p));
  held.ahead = !closing && SendsAhead(p);
  held.retry = retry;
  ContributionHeader& h = held.header;
  h.job = job;
  h.worker = options.worker;
  h.incarnation = incarnation;
  h.target = {FragmentIndex{p}, f.outer()};
  h.codec = spec->sync.upload_codec;
  h.tokens = f.drift().tokens;
  h.steps = f.drift().steps;
  // A slower worker's state at the end is final: it counts as the stop step.
  h.send_step = closing ? std::max(Clock(), closing->stop_step) : SendStep(p, retry);
  h.mean_loss_micro = held.loss_sum_micro / static_cast<int64_t>(h.steps);
  h.cursors = Cursors();
  effects.push_back(FormContribution{h.target, held.apply_at <= taken});
  f.BeginForm(std::move(held));
}

// An outer copy published at or after this send step already contains the others' sends for this
// step. A contribution now would wait for their next send step, so these steps go into the next
// send. Not twice in a row, and not after a miss: an early send of a permanently slow worker
// counts. Also not if no step could be taken until then.
bool Core::State::SkipsForOthers(uint32_t p) {
  Fragment& f = fragments[p];
  const uint64_t limit = uint64_t{spec->sync.max_unsynced_periods} * pace.own_steps();
  const bool goes_on = taken - applied_at + pace.own_steps() <= limit;
  if (!f.Skip(goes_on && f.outer_clock() >= SendStep(p, f.tried_retry()))) return false;
  Tell(NoteLevel::kInfo, "send skipped",
       absl::StrCat("fragment ", p, ": version ", f.outer().value, " is already at step ", f.outer_clock(),
                    "; local work is included in the next send"));
  return true;
}

// Whether the others send to this version only after the present step: at their first send step after `outer_clock`,
// the step at which it was published. Waiting until then would be useless, and would delay them at other fragments. A
// merge that overwrites the steps since the send would cost up to a period of training each time, and a permanently
// slow worker all of it (docs/adr/0007).
bool Core::State::SendsAhead(uint32_t p) const { return OthersSend(p) > Clock(); }

uint64_t Core::State::OthersSend(uint32_t p) const {
  return schedule->NextSendStep(FragmentIndex{p}, fragments[p].outer_clock() + 1);
}

// The steps from a send at the present step to its apply step.
uint64_t Core::State::StepsToApply(uint32_t p) const {
  return pace.StepsFor(schedule->ApplyStep(std::max(Clock(), OthersSend(p))) - Clock());
}

void Core::State::OnContributionFormed(const ContributionFormed& formed) {
  const uint32_t p = formed.target.fragment.value;
  if (p >= fragments.size()) return;
  const bool is_new = fragments[p].Formed(formed.digest, formed.encoded_bytes, formed.upload_error_nano);
  if (is_new && welcomed) StartUpload(p);
}

// The step for which a contribution formed now counts: the present one, or, if a step at a pace below the period has
// carried the clock past the send step, that send step.
uint64_t Core::State::SendStep(uint32_t p, bool retry) const {
  if (pace.own_steps() == Period() || retry) return Clock();
  const uint64_t next = schedule->NextSendStep(FragmentIndex{p}, Clock() + 1);
  return next > Period() ? next - Period() : Clock();
}

void Core::State::OnContributionFailed(const ContributionFailed& failed_one) {
  const uint32_t p = failed_one.target.fragment.value;
  if (p >= fragments.size() || !fragments[p].forming()) return;
  fragments[p].Withdraw();
  TakeOuterEverywhere(absl::StrCat("fragment ", p, " cannot be contributed (", failed_one.reason, ")"));
}

void Core::State::StartUpload(uint32_t p) {
  fragments[p].StartUpload();
  effects.push_back(Upload{{fragments[p].held()->header, boot}});
}

void Core::State::OnUploadEnded(const UploadEnded& ended) {
  const uint32_t p = ended.target.fragment.value;
  if (p >= fragments.size()) return;
  Fragment& f = fragments[p];
  if (!f.IsHeld(ended.target.version, ended.digest) || !f.StopUpload()) return;
  if (ended.result == UploadResult::kAccepted) return f.Accept(now);
  // Without a stream, the refusal may come from a coordinator that is starting: the next Welcome
  // reports the fate.
  if (!welcomed) return;
  MarkRefused(p, ended.reason);
}

void Core::State::OnContributionRefused(const ContributionRefused& refused) {
  const uint32_t p = refused.target.fragment.value;
  if (p >= fragments.size()) return;
  if (fragments[p].IsHeld(refused.target.version, refused.digest)) MarkRefused(p, refused.reason);
}

void Core::State::MarkRefused(uint32_t p, const std::string& reason) {
  Fragment& f = fragments[p];
  if (f.HasUpdate()) return;
  Tell(NoteLevel::kWarning, "contribution refused",
       absl::StrCat("fragment ", p, " version ", f.held()->version.value, ": ", reason, "; its ",
                    f.held()->header.steps, " steps stay in this worker and are included in the next one"));
  f.Refuse(now + ApplyPatience());
  Withdraw(p);
}

void Core::State::Withdraw(uint32_t p) {
  const std::optional<Held> held = fragments[p].Withdraw();
  if (!held) return;
  if (held->uploading) effects.push_back(CancelUpload{FragmentIndex{p}});
  if (!held->dropped) effects.push_back(DropContribution{FragmentIndex{p}});
}

// The time that an apply step waits for its update: the job's round deadline, otherwise the shortest possible
// one, but at least one period of this worker by its measured steps. The update's size and the link's rate set
// no longer limit, because training pauses meanwhile. A link with transfers longer than a period is too slow
// for the job, which the coordinator reports; the update is still fetched, and applied on arrival without loss.
// While the coordinator is away, one heartbeat interval.
Duration Core::State::ApplyPatience() const {
  if (!welcomed) return heartbeat;
  if (spec->sync.deadline.ns > 0) return spec->sync.deadline;
  return std::max(membership + limits::kGraceMinimum, Duration{step_ns} * static_cast<int64_t>(pace.own_steps()));
}

}  // namespace atl::worker
