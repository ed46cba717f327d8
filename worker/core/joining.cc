// SPDX-License-Identifier: Apache-2.0
// Joins a job: prepares, fetches every fragment, takes over the job clock, sends Ready. Also leaves a job.
#include <algorithm>
#include <utility>

#include "common/plan/job_validation.h"
#include "worker/core/state.h"

namespace atl::worker {

void Core::State::OnAssignment(const Assignment& assignment) {
  release_at = kNever;
  if (failed && *failed == std::pair(assignment.job, assignment.spec_revision)) {
    SayIt(JobFailure{assignment.job, failed_reason, failed_permanent});
    return;
  }
  if (prepared && job == assignment.job) {
    ContinueJob(assignment);
    return;
  }
  if (phase == Phase::kPreparing && job == assignment.job) {
    TakeRevision(assignment);
    assigned = assignment.versions;
    assigned_clock = {assignment.clock_step, now, assignment.clock_pace};
    course = {LineOf(boot), assignment.epoch};
    return;
  }
  if (prepared || phase == Phase::kPreparing) DropJob(true);
  BeginJob(assignment);
}

void Core::State::BeginJob(const Assignment& assignment) {
  phase = Phase::kPreparing;
  job = assignment.job;
  spec = assignment.spec;
  revision = assignment.spec_revision;
  assigned = assignment.versions;
  assigned_clock = {assignment.clock_step, now, assignment.clock_pace};
  assigned_layout = assignment.layout;
  course = {LineOf(boot), assignment.epoch};
  fresh = true;
  Tell(NoteLevel::kInfo, "job assigned", absl::StrCat("job ", job.value, " at step ", assigned_clock.step));
  effects.push_back(PrepareJob{job, spec, assigned_layout});
}

void Core::State::TakeRevision(const Assignment& assignment) {
  if (assignment.spec_revision <= revision) return;
  spec = assignment.spec;
  revision = assignment.spec_revision;
  effects.push_back(ChangeSpec{spec});
  Tell(NoteLevel::kInfo, "job updated", absl::StrCat("job ", job.value, " has revision ", revision));
}

// The job's memory already exists: after a reconnect, as a new incarnation, or with a new revision of the spec.
void Core::State::ContinueJob(const Assignment& assignment) {
  TakeRevision(assignment);
  const JobCourse before = std::exchange(course, {LineOf(boot), assignment.epoch});
  fresh = fresh || course != before;
  assigned = assignment.versions;
  assigned_clock = {assignment.clock_step, now, assignment.clock_pace};
  if (phase == Phase::kIdle) {  // a new incarnation: earlier state is void
    for (size_t p = 0; p < reached.size() && p < assigned.size(); ++p) fresh = fresh || assigned[p] < reached[p];
    FetchAll();
    return;
  }
  if (phase != Phase::kActive && phase != Phase::kFetching) return;
  bool outdated = false;
  for (uint32_t p = 0; p < fragments.size() && p < assigned.size(); ++p) {
    if (!fragments[p].absent() && assigned[p] < fragments[p].outer()) outdated = true;
  }
  if (outdated) {
    VoidIncarnation();
    fresh = true;
    FetchAll();
    return;
  }
  for (uint32_t p = 0; p < fragments.size() && p < assigned.size(); ++p) {
    // The job's clock is at or after the version's, by less than a period.
    if (assigned[p].value > 0) AddPending(p, {assigned[p], Digest{}, false, false, false, assigned_clock.step});
  }
  if (assigned_clock.step > job_clock) job_clock = assigned_clock.step;
  if (phase == Phase::kFetching) return;  // installed fragments catch up as well
  if (ran_on && !closing) SetClockBack(assigned_clock.step);
  ran_on = false;
  // A step at or after the stop step would mean that nothing more comes; only ContinueClosing sends that.
  const uint64_t stop = closing ? closing->stop_step : PlannedInnerSteps(*spec);
  closing_said = false;
  SayReady(stop > 0 ? std::min(Clock(), stop - 1) : Clock());
  if (wish.open) SayIt(LeaseRequest{job, wish.request, wish.samples});
}

void Core::State::OnJobPrepared(const JobPrepared& done) {
  if (phase != Phase::kPreparing || done.job != job) return;
  prepared = true;
  sizes = done.fragments;
  fragments.assign(sizes.size(), Fragment{});
  const SyncSpec& sync = spec->sync;
  const uint32_t own = std::min(options.overlap_steps, sync.inner_steps - 1);
  if (own < options.overlap_steps) {
    Tell(NoteLevel::kWarning, "overlap shortened",
         absl::StrCat(own, " steps, not ", options.overlap_steps, ": a period of job ", job.value, " has ",
                      sync.inner_steps));
  }
  const uint32_t count = static_cast<uint32_t>(sizes.size());
  schedule.emplace(sync.inner_steps, sync.overlap_steps, count, own > 0 ? own : sync.overlap_steps);
  FetchAll();
}

void Core::State::FetchAll() {
  phase = Phase::kFetching;
  job_clock = assigned_clock.step;
  SetWaiting(absl::StrCat(fragments.size(), " fragments of job ", job.value));
  for (uint32_t p = 0; p < fragments.size(); ++p) {
    fragments[p] = Fragment::Fetching(p < assigned.size() ? assigned[p] : Version{});
    effects.push_back(FetchFragment{job, FragmentIndex{p}});
  }
}

void Core::State::OnFragmentFetched(const FragmentFetched& fetched) {
  const uint32_t p = fetched.fragment.value;
  if (p >= fragments.size() || !fragments[p].WholeFetched()) return;
  effects.push_back(InstallFragment{fetched.fragment, fetched.version, fragments[p].leaping()});
}

void Core::State::OnFragmentFetchFailed(const FragmentFetchFailed& failed_fetch) {
  const uint32_t p = failed_fetch.fragment.value;
  if (p >= fragments.size() || !fragments[p].WholeNotFetched(now + kFetchRepeat)) return;
  if (!fragments[p].absent()) return OnLeapFailed(p);
  Tell(NoteLevel::kWarning, "fragment not fetched",
       absl::StrCat("fragment ", p, " of job ", job.value, ": ", failed_fetch.reason, "; retrying"));
}

void Core::State::OnFragmentInstalled(const FragmentInstalled& installed) {
  const uint32_t p = installed.fragment.value;
  if (p >= fragments.size()) return;
  Fragment& f = fragments[p];
  if (!installed.matches) return OnInstalledDamaged(p, installed);
  if (!f.Installed(installed.version)) return;
  if (f.unsettled() != nullptr) return OnLeapt(p);
  if (p < assigned.size()) f.Expect(assigned[p]);
  FillGaps(p);
  if (phase == Phase::kFetching) {
    FinishJoining();
    return;
  }
  // The steps taken during the fetch are in no drift any more: they must not block steps until its
  // next send step.
  applied_at = taken;
  effects.push_back(AdoptOuter{installed.fragment});
  SayIt(Applied{job, {installed.fragment, f.outer()}, true});
}

void Core::State::OnInstalledDamaged(uint32_t p, const FragmentInstalled& installed) {
  if (!fragments[p].InstalledDamaged(now + kFetchRepeat)) return;
  if (fragments[p].leaping()) return Heal(p);
  Tell(
      NoteLevel::kWarning, "fragment damaged",
      absl::StrCat("fragment ", p, " version ", installed.version.value, " has another hash than announced; retrying"));
}

// Once no fragment is absent: a joiner starts with the job's clock, and with zero moments unless a local snapshot
// exists or the moments in memory are still valid (not `fresh`). No worker waits for it.
void Core::State::FinishJoining() {
  for (const Fragment& f : fragments) {
    if (f.absent()) return;
  }
  for (uint32_t p = 0; p < fragments.size(); ++p) effects.push_back(AdoptOuter{FragmentIndex{p}});
  const uint64_t clock = assigned_clock.ByNow(now, job_clock, Period(), spec->stop.inner_steps);
  if (fresh) effects.push_back(BeginOptimizer{clock, assigned, course});
  fresh = false;
  taken = gained = applied_at = tokens_total = 0;
  pace = PacedClock(Period());
  non_finite = 0;
  clock_offset = clock;
  job_clock = std::max(job_clock, clock);
  set_back = 0;
  ran_on = false;
  phase = Phase::kActive;
  SetWaiting("");
  Tell(NoteLevel::kInfo, "training", absl::StrCat("job ", job.value, " from step ", Clock()));
  SayReady(Clock());
}

void Core::State::OnJobDelayed(const JobDelayed& delayed) {
  if (phase != Phase::kPreparing || delayed.job != job) return;
  prepare_at = now + kFetchRepeat;
  SetWaiting(absl::StrCat("what job ", job.value, " needs: ", delayed.reason));
  Tell(NoteLevel::kWarning, "job not prepared yet",
       absl::StrCat("job ", job.value, ": ", delayed.reason, "; retrying"));
}

// Repeats failed fetches, and a preparation that was delayed.
void Core::State::RepeatFetches() {
  if (prepare_at != kNever) {
    if (now < prepare_at) {
      WakeAt(prepare_at);
    } else {
      prepare_at = kNever;
      effects.push_back(PrepareJob{job, spec, assigned_layout});
    }
  }
  for (uint32_t p = 0; p < fragments.size(); ++p) {
    Fragment& f = fragments[p];
    const Instant at = f.fetched_again_at();
    if (at == kNever) continue;
    if (now < at) {
      WakeAt(at);
      continue;
    }
    f.FetchAgain();
    effects.push_back(FetchFragment{job, FragmentIndex{p}});
  }
}

void Core::State::SayReady(uint64_t step) {
  Ready ready{job, step, {}};
  for (uint32_t p = 0; p < fragments.size(); ++p) ready.applied.push_back({FragmentIndex{p}, fragments[p].outer()});
  SayIt(std::move(ready));
}

void Core::State::OnJobBroken(const JobBroken& broken) {
  if (phase == Phase::kIdle || broken.job != job) return;
  failed = std::pair(job, revision);
  failed_reason = broken.reason;
  failed_permanent = broken.permanent;
  Tell(NoteLevel::kError, "job failed", absl::StrCat("job ", job.value, ": ", broken.reason));
  SayIt(JobFailure{job, broken.reason, broken.permanent});
  DropJob(true);
}

void Core::State::ReleaseInTime() {
  if (now < release_at) return WakeAt(release_at);
  Tell(NoteLevel::kInfo, "job released", absl::StrCat("the coordinator has not assigned job ", job.value, " again"));
  DropJob(false);
}

void Core::State::DropJob(bool return_leases) {
  for (uint32_t p = 0; p < fragments.size(); ++p) Withdraw(p);
  if (return_leases) ReturnLeases();
  effects.push_back(ReleaseJob{});
  phase = Phase::kIdle;
  prepared = false;
  prepare_at = release_at = kNever;
  job = JobId{};
  fragments.clear();
  reached.clear();
  sizes.clear();
  leases.clear();
  schedule.reset();
  spec.reset();
  revision = 0;
  taken = gained = clock_offset = set_back = job_clock = applied_at = tokens_total = 0;
  ran_on = false;
  step_ns = loss_micro = 0;
  step_samples = 0;
  wish = LeaseWish{.request = wish.request};
  evaluation.reset();
  made_evaluation.reset();
  closing.reset();
  SetWaiting("");
}

// A new incarnation makes leases, drift and residuals void. Memory and moments stay for another
// assignment of the same job.
void Core::State::VoidIncarnation() {
  if (phase == Phase::kIdle) return;
  if (phase == Phase::kPreparing) return;  // no state yet
  Tell(NoteLevel::kWarning, "local state discarded",
       absl::StrCat("job ", job.value,
                    ": the coordinator started a new incarnation of this worker; fetching the fragments again"));
  reached.resize(fragments.size());
  for (uint32_t p = 0; p < fragments.size(); ++p) {
    if (!fragments[p].absent()) reached[p] = fragments[p].outer();
    Withdraw(p);
    effects.push_back(DropFetches{FragmentIndex{p}});
    fragments[p] = Fragment{};
  }
  for (const Lease& lease : leases) effects.push_back(RemoveLease{lease.id});
  leases.clear();
  wish = LeaseWish{.request = wish.request};
  step_samples = 0;
  evaluation.reset();
  made_evaluation.reset();
  closing.reset();
  phase = Phase::kIdle;
}

}  // namespace atl::worker
