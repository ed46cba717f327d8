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

// Adds one version; fills skipped versions in without a hash, and completes known ones.
void Core::State::AddPending(uint32_t p, const Pending& wanted) {
  Fragment& f = fragments[p];
  if (wanted.reached > f.newest) f.newest_clock = 0;
  f.newest = std::max(f.newest, wanted.reached);
  if (wanted.reached == f.newest) f.newest_clock = std::max(f.newest_clock, wanted.clock_step);
  for (Pending& known : f.pending) {
    if (known.reached != wanted.reached) continue;
    if (!wanted.hash.IsZero())
      known.hash = wanted.hash, known.contributor = wanted.contributor, known.merged = wanted.merged;
    known.clock_step = std::max(known.clock_step, wanted.clock_step);
    return;
  }
  if (wanted.reached <= f.outer && f.installed) return;
  if (!f.installed || f.leaping) {
    // FillGaps requests the missing updates after the whole fragment; this only keeps hash and contributors.
    if (f.pending.size() < kVersionsRemembered) f.pending.push_back(wanted);
    return;
  }
  f.pending.push_back(wanted);
  if (!LeapForBytes(p)) FillGaps(p);
}

// Makes `pending` contiguous from outer + 1 to the newest known version, and starts fetches. A whole fragment
// comes from a snapshot that may be older than the newest version; the updates since then are still stored.
void Core::State::FillGaps(uint32_t p) {
  Fragment& f = fragments[p];
  std::deque<Pending> old;
  old.swap(f.pending);
  const uint64_t newest = std::min(std::max(f.outer, f.newest).value, f.outer.value + kVersionsAfterSnapshot);
  for (uint64_t v = f.outer.value + 1; v <= newest; ++v) {
    const auto known = std::find_if(old.begin(), old.end(), [&](const Pending& k) { return k.reached.value == v; });
    f.pending.push_back(known != old.end() ? *known : Pending{Version{v}, Digest{}, false, false, false});
    Pending& added = f.pending.back();
    if (added.reached == f.newest) added.clock_step = std::max(added.clock_step, f.newest_clock);
  }
  StartFetches(p);
}

void Core::State::StartFetches(uint32_t p) {
  Fragment& f = fragments[p];
  if (f.lacks_update) return;
  for (size_t i = 0; i < f.pending.size() && i < kFetchesAhead; ++i) {
    Pending& next = f.pending[i];
    if (next.fetching || next.fetched) continue;
    next.fetching = true;
    effects.push_back(FetchUpdate{job, {FragmentIndex{p}, next.reached}});
  }
}

void Core::State::OnUpdateFetched(const UpdateFetched& fetched) {
  const uint32_t p = fetched.reached.fragment.value;
  if (p >= fragments.size()) return;
  for (Pending& pending : fragments[p].pending) {
    if (pending.reached != fetched.reached.version || !pending.fetching) continue;
    pending.fetching = false;
    pending.fetched = true;
  }
}

// The update is no longer stored, or damaged: fetches the whole fragment.
void Core::State::OnUpdateFetchFailed(const UpdateFetchFailed& failed_fetch) {
  const uint32_t p = failed_fetch.reached.fragment.value;
  if (p >= fragments.size() || !fragments[p].installed) return;
  const auto& pending = fragments[p].pending;
  const bool wanted = std::any_of(pending.begin(), pending.end(), [&](const Pending& k) {
    return k.reached == failed_fetch.reached.version && k.fetching;
  });
  if (!wanted) return;
  Tell(NoteLevel::kWarning, "update not fetched",
       absl::StrCat("fragment ", p, " version ", failed_fetch.reached.version.value, ": ", failed_fetch.reason,
                    EvaluationNeeds(p) ? "; when the evaluation is over, the whole fragment is fetched"
                                       : "; fetching the whole fragment"));
  FetchWhole(p);
}

// Fetches fragment p whole, after a pause if that was already tried for this version. Discards its
// drift (outer copy, no residual); the caller logs the reason.
void Core::State::Heal(uint32_t p) {
  Withdraw(p);
  const Version needed{fragments[p].outer.value + 1};
  const bool in_vain = needed <= fragments[p].fetched_for;
  Fragment fresh_one;
  fresh_one.outer = fragments[p].outer;
  fresh_one.newest = fragments[p].newest;
  fresh_one.newest_clock = fragments[p].newest_clock;
  fresh_one.fetched_for = std::max(needed, fragments[p].fetched_for);
  fragments[p] = std::move(fresh_one);
  effects.push_back(DropFetches{FragmentIndex{p}});
  if (in_vain) {
    fragments[p].refetch_at = now + kFetchRepeat;
    return;
  }
  fragments[p].fetching = true;
  effects.push_back(FetchFragment{job, FragmentIndex{p}});
}

// ---- updates are applied ------------------------------------------------------------------------------------------

bool Core::State::IsContributor(const Fragment& f, const Pending& pending) const {
  if (!f.held || f.held->version.value + 1 != pending.reached.value) return false;
  if (f.held->committed) return true;
  // The merged contribution may be one sent by an earlier incarnation of this worker.
  return pending.contributor && (pending.merged.IsZero() || pending.merged == f.held->header.digest);
}

// Local parameters are merged at the apply step and not earlier, unless the merge keeps the steps
// since the send. If no step can come, the apply step would never be reached.
bool Core::State::MaySettle(const Fragment& f, bool contributor) const {
  const bool no_samples = wish.denied && Unused() == 0;
  return !contributor || f.held->ahead || taken >= f.held->apply_at || StepsForbidden() || no_samples;
}

// An evaluation needs the outer copies at exact versions: it applies updates up to them early, and
// delays later ones.
bool Core::State::MayApply(uint32_t p, bool contributor) const {
  const Fragment& f = fragments[p];
  if (evaluation && p < evaluation->assigned.versions.size()) {
    return f.outer < evaluation->assigned.versions[p];
  }
  return MaySettle(f, contributor);
}

// An update that arrives before its apply step changes the outer copy at once, in parallel with the
// remaining steps, so that only the local parameters are merged at the apply step (docs/adr/0026).
// An evaluation overrides this with its own versions.
void Core::State::ApplyReady() {
  for (uint32_t p = 0; p < fragments.size(); ++p) {
    Fragment& f = fragments[p];
    if (!f.installed || f.applying || f.forming) continue;
    if (f.unsettled) {
      if (!MaySettle(f, f.unsettled->contributor)) continue;
      Settle(p);
    }
    if (f.leaping || f.pending.empty() || !f.pending.front().fetched) continue;
    const Pending& next = f.pending.front();
    const bool contributor = IsContributor(f, next);
    const bool due = MayApply(p, contributor);
    if (!due && evaluation) continue;
    f.applying = Standing{contributor, contributor && f.held->ahead};
    f.applying_beside = !due;
    effects.push_back(
        ApplyUpdate{{FragmentIndex{p}, next.reached}, contributor, f.applying->ahead, next.hash, f.applying_beside});
  }
}

void Core::State::OnUpdateApplied(const UpdateApplied& applied) {
  const uint32_t p = applied.reached.fragment.value;
  if (p >= fragments.size() || !fragments[p].applying) return;
  Fragment& f = fragments[p];
  const Standing standing = *std::exchange(f.applying, std::nullopt);
  SayIt(Applied{job, applied.reached, applied.hash_matches});
  if (!applied.hash_matches) {
    Tell(NoteLevel::kWarning, "replica deviates",
         absl::StrCat("fragment ", p, " version ", applied.reached.version.value,
                      " has another hash here than at the coordinator; fetching the whole fragment"));
    Heal(p);
    return;
  }
  f.outer = applied.reached.version;
  f.outer_clock = f.pending.front().clock_step;
  f.pending.pop_front();
  wish.again = wish.denied;  // the obstacle may be committed now
  StartFetches(p);
  if (std::exchange(f.overtaken, false)) {  // nothing remains to be merged
    effects.push_back(AdoptOuter{FragmentIndex{p}});
    return;
  }
  f.unsettled = standing;
  if (MaySettle(f, standing.contributor)) Settle(p);
}

void Core::State::Settle(uint32_t p) {
  Fragment& f = fragments[p];
  const auto [contributor, ahead] = *f.unsettled;
  const bool late = contributor && !ahead && taken > f.held->apply_at;
  const bool dropped = f.held && f.held->dropped;
  effects.push_back(ResolveUpdate{FragmentIndex{p}, contributor, ahead, late, dropped});
  f.unsettled.reset();
  applied_at = taken;
  if (dropped) {
    SettleDropped(f);
    return;
  }
  if (!contributor) {
    if (f.held && f.held->uploading) effects.push_back(CancelUpload{FragmentIndex{p}});
    SettleMissed(f);
    return;
  }
  if (late) {
    Tell(NoteLevel::kInfo, "update arrived late",
         absl::StrCat("fragment ", p, " version ", f.outer.value, " reached the outer copy ", taken - f.held->apply_at,
                      " steps after its apply step and was not merged"));
  }
  if (f.held->uploading) effects.push_back(CancelUpload{FragmentIndex{p}});
  SettleContributor(f);
}

void Core::State::SettleContributor(Fragment& f) {
  const Held& held = *f.held;
  f.steps -= held.header.steps;
  f.tokens -= held.header.tokens;
  f.loss_sum_micro -= held.loss_sum_micro;
  f.missed = 0;
  // A lease that is trained and contributed completely is consumed, and needs no further message.
  for (const LeaseCursor& sent : held.header.cursors) {
    const auto lease = std::find_if(leases.begin(), leases.end(), [&](const Lease& l) { return l.id == sent.lease; });
    if (lease == leases.end() || sent.cursor != lease->range.end) continue;
    effects.push_back(RemoveLease{lease->id});
    leases.erase(lease);
  }
  f.held.reset();
  f.tried.reset();
  f.told_late = false;
}

// Late, refused or lost: the drift stays and is sent again at once, but only once per send step.
void Core::State::SettleMissed(Fragment& f) {
  const Version base{f.outer.value - 1};
  const bool was_held = f.held && f.held->version == base;
  const bool was_tried = f.tried && *f.tried == base;
  const bool was_retry = was_held ? f.held->retry : f.tried_retry;
  f.held.reset();
  f.tried.reset();
  f.told_late = false;
  if (!was_held && !was_tried) return;
  ++f.missed;
  f.send_now = !was_retry;
  if (f.missed < spec->sync.max_missed) return;
  TakeOuterEverywhere(absl::StrCat(f.missed, " syncs in a row were missed"));
}

void Core::State::ForgetDrift(Fragment& f) {
  f.steps = f.tokens = 0;
  f.loss_sum_micro = 0;
  f.missed = 0;
  f.due = f.send_now = false;
}

// Discards all uncontributed work: takes the outer copy, clears the residual, returns the leases.
void Core::State::TakeOuterEverywhere(const std::string& why) {
  Tell(NoteLevel::kWarning, "drift discarded",
       absl::StrCat("job ", job.value, ": ", why, "; this worker continues from the outer copy with new leases"));
  for (uint32_t p = 0; p < fragments.size(); ++p) {
    Withdraw(p);
    ForgetDrift(fragments[p]);
    fragments[p].unsettled.reset();
    fragments[p].overtaken = fragments[p].applying.has_value();
    // A fragment being changed is taken afterwards; if it deviates then, there is no outer copy to take.
    if (fragments[p].installed && !fragments[p].applying) effects.push_back(AdoptOuter{FragmentIndex{p}});
  }
  applied_at = taken;  // no remaining step waits for an update
  ReturnLeases();
}

// ---- contributions ------------------------------------------------------------------------------------------------

// After a refusal, waits for the next version made by the others, but with a limit: the next send
// step, or the end of the wait, tries the same version again. Otherwise a round with only refused
// contributions would never close.
bool Core::State::MayForm(const Fragment& f) const {
  const bool waits = closing || (!f.due && now < f.next_version_by);  // the end of a job has its own rule
  const bool tried_here = f.tried && *f.tried == f.outer && waits;
  return f.installed && !f.held && !f.unsettled && !f.applying && !tried_here && !f.Behind() && f.steps > 0;
}

void Core::State::SendDue() {
  for (uint32_t p = 0; p < fragments.size(); ++p) {
    Fragment& f = fragments[p];
    const bool stuck = !closing && !f.held && f.tried && *f.tried == f.outer && f.steps > 0;
    if (stuck && now < f.next_version_by) WakeAt(f.next_version_by);
    f.send_now = f.send_now || (stuck && now >= f.next_version_by);
    if (f.due && Clock() <= f.sent_until) f.due = false;
    if (!f.due && !f.send_now) continue;
    // Catches up first: a contribution against an outdated version would be refused.
    if (f.Behind() || f.unsettled) continue;
    const bool may = MayForm(f);
    if (f.due && !may && f.held) {
      ran_on = ran_on || !welcomed;
      Tell(NoteLevel::kInfo, "send skipped",
           absl::StrCat("fragment ", p, ": the contribution to version ", f.held->version.value, " is not resolved"));
    }
    const bool retry = f.send_now && !f.due;
    f.due = f.send_now = false;
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
  f.forming = true;
  f.tried_retry = retry;
  Held held;
  held.version = f.outer;
  held.loss_sum_micro = f.loss_sum_micro;
  held.apply_at = taken + (closing ? 0 : StepsToApply(p));
  held.ahead = !closing && SendsAhead(p);
  held.retry = retry;
  ContributionHeader& h = held.header;
  h.job = job;
  h.worker = options.worker;
  h.incarnation = incarnation;
  h.target = {FragmentIndex{p}, f.outer};
  h.codec = spec->sync.upload_codec;
  h.tokens = f.tokens;
  h.steps = f.steps;
  // A slower worker's state at the end is final: it counts as the stop step.
  h.send_step = closing ? std::max(Clock(), closing->stop_step) : SendStep(p);
  f.sent_step = h.send_step;
  h.mean_loss_micro = f.loss_sum_micro / static_cast<int64_t>(f.steps);
  h.cursors = Cursors();
  f.held = std::move(held);
  effects.push_back(FormContribution{f.held->header.target, f.held->apply_at <= taken});
}

// An outer copy published at or after this send step already contains the others' sends for this
// step. A contribution now would wait for their next send step, so these steps go into the next
// send. Not twice in a row, and not after a miss: an early send of a permanently slow worker
// counts. Also not if no step could be taken until then.
bool Core::State::SkipsForOthers(uint32_t p) {
  Fragment& f = fragments[p];
  const uint64_t limit = uint64_t{spec->sync.max_unsynced_periods} * pace.own_steps();
  const bool goes_on = taken - applied_at + pace.own_steps() <= limit;
  f.skipped = !f.skipped && goes_on && f.missed == 0 && f.outer_clock >= SendStep(p);
  if (!f.skipped) return false;
  Tell(NoteLevel::kInfo, "send skipped",
       absl::StrCat("fragment ", p, ": version ", f.outer.value, " is already at step ", f.outer_clock,
                    "; local work is included in the next send"));
  return true;
}

// The others have sent for this version's round (`outer_clock`) at the present step or later, so
// their next sends come at their next send step. Waiting until then would be useless, and would
// delay them at other fragments. A merge that overwrites the steps since the send would cost up to
// a period of training each time, and a permanently slow worker all of it (docs/adr/0007).
bool Core::State::SendsAhead(uint32_t p) const { return OthersSend(p) > Clock(); }

uint64_t Core::State::OthersSend(uint32_t p) const {
  return schedule->NextSendStep(FragmentIndex{p}, fragments[p].outer_clock + 1);
}

// The steps from a send at the present step to its apply step.
uint64_t Core::State::StepsToApply(uint32_t p) const {
  return pace.StepsFor(schedule->ApplyStep(std::max(Clock(), OthersSend(p))) - Clock());
}

void Core::State::OnContributionFormed(const ContributionFormed& formed) {
  const uint32_t p = formed.target.fragment.value;
  if (p >= fragments.size() || !fragments[p].forming) return;
  Fragment& f = fragments[p];
  f.forming = false;
  ContributionHeader& h = f.held->header;
  h.digest = formed.digest;
  h.encoded_bytes = formed.encoded_bytes;
  h.upload_error_nano = formed.upload_error_nano;
  if (welcomed) StartUpload(f);
}

// With a pace below the period, a step may carry the clock past the send step, for which the
// contribution counts.
uint64_t Core::State::SendStep(uint32_t p) const {
  if (pace.own_steps() == Period() || fragments[p].tried_retry) return Clock();
  const uint64_t next = schedule->NextSendStep(FragmentIndex{p}, Clock() + 1);
  return next > Period() ? next - Period() : Clock();
}

void Core::State::OnContributionFailed(const ContributionFailed& failed_one) {
  const uint32_t p = failed_one.target.fragment.value;
  if (p >= fragments.size() || !fragments[p].forming) return;
  fragments[p].forming = false;
  fragments[p].held.reset();
  TakeOuterEverywhere(absl::StrCat("fragment ", p, " cannot be contributed (", failed_one.reason, ")"));
}

void Core::State::StartUpload(Fragment& f) {
  f.held->uploading = true;
  effects.push_back(Upload{f.held->header, boot});
}

void Core::State::OnUploadEnded(const UploadEnded& ended) {
  const uint32_t p = ended.target.fragment.value;
  if (p >= fragments.size()) return;
  Fragment& f = fragments[p];
  if (!f.held || f.held->version != ended.target.version || f.held->header.digest != ended.digest) return;
  if (!f.held->uploading) return;
  f.held->uploading = false;
  if (ended.result == UploadResult::kAccepted) {
    f.held->Accept(now);
    return;
  }
  // Without a stream, the refusal may come from a coordinator that is starting: the next Welcome
  // reports the fate.
  if (!welcomed) return;
  MarkRefused(p, ended.reason);
}

void Core::State::OnContributionRefused(const ContributionRefused& refused) {
  const uint32_t p = refused.target.fragment.value;
  if (p >= fragments.size()) return;
  Fragment& f = fragments[p];
  if (!f.held || f.held->version != refused.target.version || f.held->header.digest != refused.digest) return;
  MarkRefused(p, refused.reason);
}

void Core::State::MarkRefused(uint32_t p, const std::string& reason) {
  Fragment& f = fragments[p];
  if (f.HasUpdate()) return;
  Tell(NoteLevel::kWarning, "contribution refused",
       absl::StrCat("fragment ", p, " version ", f.held->version.value, ": ", reason, "; its ", f.held->header.steps,
                    " steps stay in this worker and are included in the next one"));
  const bool retry = f.held->retry;
  const Version version = f.held->version;
  Withdraw(p);
  f.tried = version;
  f.tried_retry = retry;
  f.next_version_by = now + ApplyPatience();
}

void Core::State::Withdraw(uint32_t p) {
  Fragment& f = fragments[p];
  if (!f.held) return;
  if (f.held->uploading) effects.push_back(CancelUpload{FragmentIndex{p}});
  if (!f.held->dropped) effects.push_back(DropContribution{FragmentIndex{p}});
  f.forming = false;
  f.held.reset();
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
