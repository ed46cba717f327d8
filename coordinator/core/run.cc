// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/run.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/saturating.h"
#include "common/plan/experiment.h"
#include "common/plan/model_layout.h"
#include "common/plan/sync_schedule.h"

namespace atl {
namespace {

constexpr uint64_t kDropsFollowed = 1000;  // limit of counted consecutive drops; beyond every sensible rate

// Visits every cursor of contributions that are accepted or being flushed.
template <typename F>
void LookAtAccepted(const Run& run, const F& look) {
  for (const Round& round : run.rounds) {
    for (const auto& [worker, arrival] : round.accepted()) {
      for (const LeaseCursor& cursor : arrival.header.cursors) look(cursor);
    }
    for (const auto& [id, upload] : round.uploads()) {
      if (!upload.flushing) continue;
      for (const LeaseCursor& cursor : upload.header.cursors) look(cursor);
    }
  }
}

}  // namespace

Run::Run(JobRecord job, PoolRecord pool_record)
    : record(std::move(job)),
      spec(std::make_shared<const JobSpec>(record.spec)),
      layout(LayoutDigest(*spec)),
      pool(std::move(pool_record), record.dataset_samples),
      shards(spec->data.pin_shards ? spec->data.corpora.size() : 0),
      claims(spec->data.sequence_length),
      rounds(record.fragments),
      published(record.fragments),
      misses(record.fragments),
      progress(record.fragments) {}

VersionVector Run::Versions() const {
  VersionVector versions;
  for (const Round& round : rounds) versions.push_back(round.version());
  return versions;
}

uint32_t Run::PoolNow() const { return PoolSize(*spec, StepOf(rounds[0].version())); }

uint64_t Run::StepOf(Version version) const {
  if (version.value == 0) return 0;
  const SyncSchedule schedule(spec->sync.inner_steps, spec->sync.overlap_steps, record.fragments);
  const uint64_t sent = schedule.NextSendStep(FragmentIndex{0}, 1) + (version.value - 1) * inner_steps();
  const bool running = record.state != JobState::kClosing && !HasEnded(record.state);
  const uint64_t stop = running ? spec->stop.inner_steps : record.stop_step;
  return stop == 0 ? sent : std::min(sent, stop);
}

uint64_t Run::ClockStep(uint64_t newest_step) const {
  // The workers reached the stop step, even if a merge covers more than one period.
  if (record.state == JobState::kSucceeded && record.stop_step > 0) return record.stop_step;
  if (rounds.empty()) return clock_floor;
  if (HasEnded(record.state)) {  // no worker is left to report its step
    if (const CheckpointRecord* const last = checkpoints.Of(Versions())) return std::max(clock_floor, last->step);
  }
  const uint64_t sent = StepOf(rounds[0].version());
  const uint64_t base = std::max(sent, clock_floor);
  const uint64_t most = std::max(base, sent + inner_steps() - 1);  // less than one period after the last commit
  return std::clamp(newest_step, base, most);
}

bool Run::HasClosed(FragmentIndex fragment, const WorkerId& worker, uint64_t reported_step) const {
  const auto& newest = rounds[fragment.value].committed();
  const auto it = newest.find(worker);
  return it != newest.end() && it->second.header.send_step >= std::max(record.stop_step, reported_step);
}

uint64_t Run::AcceptedCursor(LeaseId lease) const {
  if (!log_damage.empty()) return UINT64_MAX;
  uint64_t newest = 0;
  LookAtAccepted(*this, [&](const LeaseCursor& c) {
    if (c.lease == lease) newest = std::max(newest, c.cursor);
  });
  return newest;
}

std::map<LeaseId, uint64_t> Run::AcceptedCursors() const {
  std::map<LeaseId, uint64_t> newest;
  LookAtAccepted(*this, [&](const LeaseCursor& c) { newest[c.lease] = std::max(newest[c.lease], c.cursor); });
  return newest;
}

Round* Run::RoundOf(UploadId upload) {
  const auto it = std::find_if(rounds.begin(), rounds.end(), [&](const Round& r) { return r.Sent(upload) != nullptr; });
  return it == rounds.end() ? nullptr : &*it;
}

bool Run::HasUploads() const {
  return std::any_of(rounds.begin(), rounds.end(), [](const Round& r) { return !r.uploads().empty(); });
}

bool Run::IsUploading(const WorkerId& worker) const {
  return std::any_of(rounds.begin(), rounds.end(), [&](const Round& r) { return r.IsUploading(worker); });
}

UpdatePublished Run::NewestUpdate(FragmentIndex fragment) const {
  const Round& round = rounds[fragment.value];
  const UpdatePublished& newest = published[fragment.value];
  if (newest.reached.version == round.version() && newest.hash == round.hash()) return newest;
  UpdatePublished update{.job = id(), .reached = {fragment, round.version()}, .hash = round.hash()};
  for (const auto& [worker, merged] : round.committed()) {
    if (merged.header.target.version.value + 1 != round.version().value) continue;
    update.contributors.push_back(worker);
    update.digests.push_back(merged.header.digest);
  }
  return update;
}

std::vector<uint64_t> Run::PeriodsSinceRounds() const {
  std::vector<uint64_t> newest;
  for (const Round& round : rounds) {
    uint64_t step = 0;
    for (const auto& [id, merged] : round.committed()) step = std::max(step, merged.header.send_step);
    newest.push_back(step);
  }
  const uint64_t front = newest.empty() ? 0 : *std::max_element(newest.begin(), newest.end());
  for (uint64_t& step : newest) step = (front - step) / std::max(1u, inner_steps());
  return newest;
}

uint64_t Run::PeriodSamples(uint64_t periods) const {
  return MulSat(periods, MulSat(inner_steps(), spec->batch.sequences_per_step));
}

Coverage Run::CoverageOf(const ContributionHeader& header) const {
  // The samples that a worker can train after its newest committed contribution, and lose by fetching the fragment.
  Coverage coverage{.allowance = LeaseLimit(header.worker)};
  std::map<LeaseId, uint64_t> accepted, with;
  const auto look = [&](const ContributionHeader& h) {
    if (h.worker != header.worker || h.incarnation != header.incarnation) return;
    for (const LeaseCursor& c : h.cursors) accepted[c.lease] = std::max(accepted[c.lease], c.cursor);
    if (h.target.fragment == header.target.fragment) return;
    const uint64_t before = claims.ClaimedFor(h.worker, h.incarnation, h.target.fragment);
    coverage.claimed = std::max(coverage.claimed, before + h.tokens);
  };
  for (const Round& round : rounds) {
    const auto it = round.accepted().find(header.worker);
    if (it != round.accepted().end()) look(it->second.header);
    for (const auto& [id, upload] : round.uploads()) {
      if (upload.flushing) look(upload.header);
    }
  }
  with = accepted;
  for (const LeaseCursor& c : header.cursors) with[c.lease] = std::max(with[c.lease], c.cursor);
  for (const auto& [id, cursor] : with) {
    const LeaseRecord* lease = pool.Find(id);
    if (lease == nullptr || lease->worker != header.worker) continue;
    const auto beyond = [lease](uint64_t at) {
      return std::clamp(at, lease->consumed_to, lease->range.end) - lease->consumed_to;
    };
    coverage.before += beyond(accepted.contains(id) ? accepted.at(id) : 0);
    coverage.after += beyond(cursor);
  }
  return coverage;
}

uint64_t Run::DroppedRunning(const WorkerId& worker) const {
  if (spec->experiment.drop_sync_probability <= 0) return 0;
  uint64_t most = 0;
  for (uint32_t p = 0; p < rounds.size(); ++p) {
    const FragmentIndex fragment{p};
    uint64_t version = rounds[p].version().value, running = 0;
    running += DropsSync(*spec, worker, {fragment, Version{version}}) ? 1 : 0;  // of the open round
    while (version > 0 && running < kDropsFollowed && DropsSync(*spec, worker, {fragment, Version{--version}})) {
      ++running;
    }
    most = std::max(most, running);
  }
  return most;
}

absl::StatusOr<const CheckpointRecord*> Run::FinishedCheckpoint(uint64_t step) const {
  if (const CheckpointRecord* const checkpoint = checkpoints.Complete(step)) return checkpoint;
  return absl::NotFoundError(absl::StrCat("job ", id().value, " has no finished checkpoint at step ", step,
                                          "; 'atoll checkpoint list ", id().value, "' shows those that it has"));
}

bool Run::HoldsWork() const {
  return std::any_of(rounds.begin(), rounds.end(),
                     [](const Round& r) { return r.version().value > 0 || !r.accepted().empty() || r.Flushing() > 0; });
}

Task LoadTaskOf(const Run& run) {
  const VersionVector heads = run.Versions();
  Task load = PrepareParameters{run.id()};
  // Until the first commit after a rollback, the checkpoint holds the state of the epoch.
  // Afterwards the epoch has its own snapshots, and rounds for the norm screen's history.
  const bool begun =
      std::any_of(run.rounds.begin(), run.rounds.end(), [](const Round& r) { return !r.committed().empty(); });
  if (run.record.epoch == 0 || begun) return load;
  for (const auto& [step, checkpoint] : run.checkpoints.records()) {
    if (checkpoint.complete && checkpoint.versions == heads) load = RestoreCheckpoint{run.id(), step, run.record.epoch};
  }
  return load;
}

const char* NameOf(JobState state) {
  switch (state) {
    case JobState::kPending: return "PENDING";
    case JobState::kWaitingForWorkers: return "WAITING_FOR_WORKERS";
    case JobState::kRunning: return "RUNNING";
    case JobState::kPaused: return "PAUSED";
    case JobState::kClosing: return "CLOSING";
    case JobState::kSucceeded: return "SUCCEEDED";
    case JobState::kFailed: return "FAILED";
    case JobState::kCancelled: return "CANCELLED";
  }
  return "UNKNOWN";
}

}  // namespace atl
