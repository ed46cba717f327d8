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

// With shards everything is free from the start, so that each corpus is read from its own first sample.
PoolRecord FirstPool(const JobRecord& record) {
  PoolRecord pool;
  pool.job = record.job;
  if (!record.spec.data.pin_shards) return pool;
  pool.frontier = record.dataset_samples;
  pool.returned = {{0, record.dataset_samples}};
  return pool;
}

}  // namespace

absl::StatusOr<JobId> Machine::Submit(const JobSubmitted& e) {
  for (const auto& [id, run] : runs_) {
    if (!e.request_id.empty() && run.record.request_id == e.request_id) return id;
  }
  JobId id{e.spec.name};
  uint64_t n = core_.counters.next_job_sequence;
  while (id.value.empty() || (e.spec.name.empty() && Find(id) != nullptr)) id.value = absl::StrCat("job-", n++);
  if (!IsName(id.value)) return absl::InvalidArgumentError(absl::StrCat("metadata.name must be ", kNameRule));
  if (Find(id) != nullptr)
    return absl::AlreadyExistsError(absl::StrCat("a job named ", id.value, " exists; choose another name"));
  if (runs_.size() >= limits::kJobs) {
    return absl::ResourceExhaustedError(absl::StrCat("the ledger holds ", limits::kJobs,
                                                     " jobs, ended ones too, its limit; start "
                                                     "a coordinator on a new state directory for more"));
  }
  if (!e.spec.init.checkpoint.empty() && SourceOf(runs_, e.spec) == nullptr) {
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
  Run& run = runs_.emplace(id, Run(std::move(record), pool)).first->second;
  SetState(run, JobState::kPending, "parameters are being made");
  for (uint32_t p = 0; p < run.rounds.size(); ++p) OpenRound(run, FragmentIndex{p});
  Load(run);
  if (core_.disk_low) core_.Note(id, "disk almost full", absl::StrCat(kDiskLow, "; it goes on by itself then"));
  return id;
}

absl::Status Machine::Do(Run& run, const JobControlled& e) {
  core_.wall_nanos = std::max(core_.wall_nanos, e.wall_nanos);
  switch (e.action) {
    case JobAction::kCancel: return Cancel(run, false);
    case JobAction::kCancelWithDrain: return Cancel(run, true);
    case JobAction::kPause: return Pause(run);
    case JobAction::kResume: return Resume(run);
  }
  return absl::InvalidArgumentError("unknown action");
}

absl::Status Machine::Cancel(Run& run, bool drain) {
  if (run.record.state == JobState::kCancelled) return absl::OkStatus();
  if (HasEnded(run.record.state)) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", run.id().value, " has ended: ", NameOf(run.record.state)));
  }
  if (!drain || run.record.state != JobState::kRunning || core_.fleet.TrainingCount(run.id()) == 0) {
    if (drain && run.record.state == JobState::kClosing) {
      run.record.draining = true;
      run.touched = true;
      return absl::OkStatus();
    }
    End(run, JobState::kCancelled, "as asked, without closing rounds; what was committed is kept");
    return absl::OkStatus();
  }
  run.record.draining = true;
  BeginClosing(run, 0, "cancelled with drain");
  return absl::OkStatus();
}

absl::Status Machine::Pause(Run& run) {
  if (run.record.state == JobState::kPaused) return absl::OkStatus();
  if (run.record.state != JobState::kRunning && run.record.state != JobState::kWaitingForWorkers) {
    return absl::FailedPreconditionError(absl::StrCat("job ", run.id().value, " is ", NameOf(run.record.state),
                                                      "; only a running or waiting job can be paused"));
  }
  CloseWhatHasItsQuorum(run);
  Hold(run, "paused by request; it waits for job resume");
  return absl::OkStatus();
}

absl::Status Machine::Resume(Run& run) {
  const std::string& id = run.id().value;
  if (run.Open() && (run.record.state != JobState::kClosing || !run.failures.empty())) {
    LiftBars(run);
    return absl::OkStatus();
  }
  if (run.record.state == JobState::kFailed) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", id, " is FAILED (", run.record.reason, "): mend that and submit it again"));
  }
  if (run.record.state != JobState::kPaused)
    return absl::FailedPreconditionError(absl::StrCat("job ", id, " is ", NameOf(run.record.state), ", not paused"));
  if (!run.log_damage.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(run.log_damage, "; mend it and start the coordinator again, or ",
                                                      "set the job back with 'atoll job rollback ", id, " --to STEP'"));
  }
  LiftBars(run);
  for (Round& round : run.rounds) round.HoldOver();
  if (!run.loaded && !run.loading) Load(run);
  SetState(run, JobState::kWaitingForWorkers, "");
  for (uint32_t p = 0; p < run.rounds.size(); ++p) {
    if (!run.rounds[p].closing()) OpenRound(run, FragmentIndex{p});
  }
  return absl::OkStatus();
}

absl::Status Machine::Do(Run& run, const JobUpdated& e) {
  if (HasEnded(run.record.state) || run.record.state == JobState::kClosing) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", e.job.value, " is ", NameOf(run.record.state), " and cannot be changed"));
  }
  if (e.expected_revision != 0 && e.expected_revision != run.record.spec_revision) {
    return absl::AbortedError(absl::StrCat("the spec is at revision ", run.record.spec_revision, ", not ",
                                           e.expected_revision, ": read it again"));
  }
  run.record.spec = e.spec;
  run.record.spec.name = e.job.value;
  run.record.stop_step = e.stop_step;
  ++run.record.spec_revision;
  run.spec = std::make_shared<const JobSpec>(run.record.spec);
  run.touched = true;
  Retain(run);  // fewer may be kept, and on a full disk no next checkpoint triggers it
  for (const auto& [id, member] : core_.fleet.Of(e.job)) SendAssignment(member, run);
  const std::string mismatch = ScheduleMismatch(*run.spec);
  core_.Note(e.job, "updated",
             absl::StrCat("spec revision ", run.record.spec_revision, " takes effect at the next round",
                          mismatch.empty() ? "" : "; ", mismatch),
             {{"revision", absl::StrCat(run.record.spec_revision)}});
  return absl::OkStatus();
}

// Operators and workers: drain, cordon, evict, readmit.
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
  if (!member->record().quarantine.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(QuarantineLine(member->record()), " to let it back in"));
  }
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

// It keeps its present job, also over a reconnect, and gets no other.
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
  if (member.record().quarantine.empty() && !member.record().cordoned) {
    return absl::FailedPreconditionError(absl::StrCat("worker ", id, " is neither quarantined nor cordoned"));
  }
  member.Readmit(core_.now);
  core_.fleet.Touch(member.record().worker);
  core_.Note({}, "worker readmitted", absl::StrCat("worker ", id, " was readmitted by an operator"), {{"worker", id}});
  return absl::OkStatus();
}

}  // namespace atl
