// SPDX-License-Identifier: Apache-2.0
// Handles people's requests.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/names.h"
#include "common/plan/learning_rate.h"
#include "common/plan/limits.h"
#include "common/plan/shards.h"
#include "coordinator/core/machine.h"

namespace atl {
namespace {

uint64_t DatasetOf(const JobSpec& spec, uint64_t samples) {
  return spec.data.pin_shards ? ShardRange(static_cast<uint32_t>(spec.data.corpora.size())).begin : samples;
}

// With data.assignment: shards, all samples begin as returned ones, so that each corpus is read from its own start.
PoolRecord FirstPool(const JobRecord& record) {
  PoolRecord pool;
  pool.job = record.job;
  if (!record.spec.data.pin_shards) return pool;
  pool.frontier = record.dataset_samples;
  pool.returned = {{0, record.dataset_samples}};
  return pool;
}

// Limit over all jobs, ended ones too: a fragment takes 1 to 2 KB of memory as long as its state directory is used.
constexpr uint64_t kFragmentsOfJobs = 1 << 17;

}  // namespace

absl::StatusOr<JobId> Machine::Submit(const JobSubmitted& e) {
  for (const auto& [id, job] : jobs_) {
    if (!e.request_id.empty() && job.run().record.request_id == e.request_id) return id;
  }
  JobId id{e.spec.name};
  uint64_t n = core_.counters.next_job_sequence;
  while (id.value.empty() || (e.spec.name.empty() && Find(id) != nullptr)) id.value = absl::StrCat("job-", n++);
  if (!IsName(id.value)) return absl::InvalidArgumentError(absl::StrCat("metadata.name must be ", kNameRule));
  if (Find(id) != nullptr)
    return absl::AlreadyExistsError(absl::StrCat("a job named ", id.value, " exists; choose another name"));
  if (jobs_.size() >= limits::kJobs) {
    return absl::ResourceExhaustedError(absl::StrCat("the ledger holds ", limits::kJobs,
                                                     " jobs, ended ones too, its limit; start "
                                                     "a coordinator on a new state directory for more"));
  }
  uint64_t fragments = e.fragments;
  for (const auto& [known, job] : jobs_) fragments += job.run().record.fragments;
  if (fragments > kFragmentsOfJobs) {
    return absl::ResourceExhaustedError(absl::StrCat("with this job the ledger would hold jobs of ", fragments,
                                                     " fragments, ended ones too; its limit is ", kFragmentsOfJobs,
                                                     "; start a coordinator on a new state directory for more"));
  }
  if (!e.spec.init.checkpoint.empty() && SourceOf(e.spec) == nullptr) {
    return absl::NotFoundError(absl::StrCat("model.init.checkpoint is ", e.spec.init.checkpoint,
                                            ", which is not there any more; choose a newer one"));
  }
  if (e.fragments == 0 || e.fragments > limits::kFragments || e.dataset_samples == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the job has ", e.fragments, " fragments and ", e.dataset_samples, " samples; it cannot run"));
  }
  JobRecord record;
  record.job = id;
  record.sequence = core_.counters.next_job_sequence++;
  core_.counters_touched = true;
  record.spec = e.spec;
  record.spec.name = id.value;
  record.request_id = e.request_id;
  record.stop_step = e.stop_step;
  record.dataset_samples = DatasetOf(e.spec, e.dataset_samples);
  record.held_out_samples = e.held_out_samples;
  record.fragments = e.fragments;
  core_.wall_nanos = std::max(core_.wall_nanos, e.wall_nanos);
  record.create_wall_nanos = core_.wall_nanos;
  const PoolRecord pool = FirstPool(record);
  core_.out.records.push_back(pool);
  jobs_.try_emplace(id, core_, std::move(record), pool).first->second.Submit();
  return id;
}

absl::Status Job::Do(const JobControlled& e) {
  core_.wall_nanos = std::max(core_.wall_nanos, e.wall_nanos);
  switch (e.action) {
    case JobAction::kCancel: return Cancel(false);
    case JobAction::kCancelWithDrain: return Cancel(true);
    case JobAction::kPause: return Pause();
    case JobAction::kResume: return Resume();
  }
  return absl::InvalidArgumentError("unknown action");
}

absl::Status Job::Cancel(bool drain) {
  if (run_.record.state == JobState::kCancelled) return absl::OkStatus();
  if (HasEnded(run_.record.state)) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", run_.id().value, " has ended: ", NameOf(run_.record.state)));
  }
  if (!drain || run_.record.state != JobState::kRunning || core_.fleet.TrainingCount(run_.id()) == 0) {
    if (drain && run_.record.state == JobState::kClosing) {
      run_.record.draining = true;
      run_.touched = true;
      return absl::OkStatus();
    }
    End(JobState::kCancelled, "as asked, without closing rounds; what was committed is kept");
    return absl::OkStatus();
  }
  run_.record.draining = true;
  BeginClosing(0, "cancelled with drain");
  return absl::OkStatus();
}

absl::Status Job::Pause() {
  if (run_.record.state == JobState::kPaused) return absl::OkStatus();
  if (run_.record.state != JobState::kRunning && run_.record.state != JobState::kWaitingForWorkers) {
    return absl::FailedPreconditionError(absl::StrCat("job ", run_.id().value, " is ", NameOf(run_.record.state),
                                                      "; only a running or waiting job can be paused"));
  }
  CloseWhatHasItsQuorum();
  Hold("paused by request; it waits for job resume");
  return absl::OkStatus();
}

absl::Status Job::Resume() {
  const std::string& id = run_.id().value;
  if (run_.Open() && (run_.record.state != JobState::kClosing || !run_.failures.empty())) {
    LiftBars();
    return absl::OkStatus();
  }
  if (run_.record.state == JobState::kFailed) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", id, " is FAILED (", run_.record.reason, "): mend that and submit it again"));
  }
  if (run_.record.state != JobState::kPaused)
    return absl::FailedPreconditionError(absl::StrCat("job ", id, " is ", NameOf(run_.record.state), ", not paused"));
  if (!run_.log_damage.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(run_.log_damage, "; mend it and start the coordinator again, or ",
                                                      "set the job back with 'atoll job rollback ", id, " --to STEP'"));
  }
  LiftBars();
  for (Round& round : run_.rounds) round.HoldOver();
  if (!run_.loaded && !run_.loading) Load();
  SetState(JobState::kWaitingForWorkers, "");
  OpenRounds();
  return absl::OkStatus();
}

absl::Status Job::Do(const JobUpdated& e) {
  if (HasEnded(run_.record.state) || run_.record.state == JobState::kClosing) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", e.job.value, " is ", NameOf(run_.record.state), " and cannot be changed"));
  }
  if (e.expected_revision != 0 && e.expected_revision != run_.record.spec_revision) {
    return absl::AbortedError(absl::StrCat("the spec is at revision ", run_.record.spec_revision, ", not ",
                                           e.expected_revision, ": read it again"));
  }
  run_.record.spec = e.spec;
  run_.record.spec.name = e.job.value;
  run_.record.stop_step = e.stop_step;
  ++run_.record.spec_revision;
  run_.spec = std::make_shared<const JobSpec>(run_.record.spec);
  run_.touched = true;
  Retain();  // fewer may be kept, and on a full disk no next checkpoint triggers it
  for (const auto& [id, member] : core_.fleet.Of(e.job)) SendAssignment(member);
  const std::string mismatch = ScheduleMismatch(*run_.spec);
  core_.Note(e.job, "updated",
             absl::StrCat("spec revision ", run_.record.spec_revision, " takes effect at the next round",
                          mismatch.empty() ? "" : "; ", mismatch),
             {{"revision", absl::StrCat(run_.record.spec_revision)}});
  return absl::OkStatus();
}

// Carries out an operator's request for a worker: drain, cordon, evict or readmit.
absl::Status Machine::Steer(const WorkerSteered& e) {
  Member* member = core_.fleet.Find(e.worker);
  if (member == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("no worker is named ", e.worker.value, "; 'atoll worker list' shows who is"));
  }
  switch (e.action) {
    case WorkerAction::kDrain: return Drain(*member);
    case WorkerAction::kCordon: Cordon(*member); return absl::OkStatus();
    case WorkerAction::kEvict: break;
    case WorkerAction::kReadmit: return Readmit(*member);
  }
  // Evicted at once, whatever it does: its leases are returned, its later messages are refused, and
  // it stays out.
  if (!member->record().quarantine.empty())
    return absl::FailedPreconditionError(absl::StrCat(QuarantineLine(member->record()), " to let it back in"));
  Quarantine(*member, Member::kEvicted);
  return absl::OkStatus();
}

absl::Status Machine::Drain(Member& member) {
  const std::string& id = member.record().worker.value;
  if (!member.connection()) {
    return absl::FailedPreconditionError(
        absl::StrCat("worker ", id, " is not connected, so it cannot be asked to leave; 'atoll worker cordon ", id,
                     "' gives it no other job, 'atoll worker evict ", id, "' keeps it out"));
  }
  member.Drain();
  core_.SendTo(member, DrainRequested{kDrainAsked});
  core_.Note(member.record().job, "worker drains", absl::StrCat("worker ", id, " was asked to leave"),
             {{"worker", id}});
  return absl::OkStatus();
}

// The worker keeps its present job, also over a reconnect, and gets no other.
void Machine::Cordon(Member& member) {
  const std::string& id = member.record().worker.value;
  if (member.record().cordoned) return;
  member.Cordon();
  core_.fleet.Touch(member.record().worker);
  core_.Note(member.record().job, "worker cordoned",
             absl::StrCat("worker ", id, " was cordoned by an operator: it gets no other job"), {{"worker", id}});
}

absl::Status Machine::Readmit(Member& member) {
  const std::string& id = member.record().worker.value;
  if (member.record().quarantine.empty() && !member.record().cordoned)
    return absl::FailedPreconditionError(absl::StrCat("worker ", id, " is neither quarantined nor cordoned"));
  member.Readmit(core_.now);
  core_.fleet.Touch(member.record().worker);
  core_.Note({}, "worker readmitted", absl::StrCat("worker ", id, " was readmitted by an operator"), {{"worker", id}});
  return absl::OkStatus();
}

}  // namespace atl
