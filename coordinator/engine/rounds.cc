// SPDX-License-Identifier: Apache-2.0
// Closes rounds, writes snapshots and checkpoints: bytes from the log, one aggregate pass and,
// after the commit, the update to the log.
#include <algorithm>
#include <utility>

#include "common/base/spread.h"
#include "common/plan/learning_rate.h"
#include "common/plan/shards.h"
#include "coordinator/engine/data_plane.h"
#include "coordinator/engine/last_snapshots.h"

namespace atl {
namespace {

// Rounds between two snapshots, at least: an earlier one frees nothing, because lagging workers need those rounds.
constexpr uint64_t kRoundsPerSnapshot = kVersionsForStragglers + 1;

uint64_t Before(Version version, uint64_t count) { return version.value > count ? version.value - count : 0; }

RoundMeasures Measured(const RoundResult& result) {
  RoundMeasures measures;
  measures.merged_norm = result.merged_norm;
  measures.outer_step_norm = result.outer_step_norm;
  measures.download_error = result.download_error;
  measures.momentum_alignment = result.momentum_alignment;
  measures.step_alignment = result.step_alignment;
  for (const ContributionReport& c : result.contributions) {
    measures.mean_cosine += c.cosine_to_merged / static_cast<double>(result.contributions.size());
    measures.contributions.push_back({.worker = c.worker,
                                      .weight = c.weight,
                                      .norm = c.norm,
                                      .clip_factor = c.clip_factor,
                                      .cosine_to_merged = c.cosine_to_merged,
                                      .cosine_to_others = c.cosine_to_others});
  }
  return measures;
}

std::vector<ScreenedOut> RefusedOf(const RoundResult& result) {
  std::vector<ScreenedOut> refused;
  for (const WorkerId& worker : result.non_finite)
    refused.push_back({worker, "it contains values that are not finite", false});
  for (const WorkerId& worker : result.too_large)
    refused.push_back({worker, "its values are so large that the outer step could overflow", false});
  for (size_t i = 0; i < result.norms.size(); ++i) {
    if (result.norms[i].action != NormAction::kRefuse) continue;
    refused.push_back({result.contributions[i].worker, NormClause(result.norms[i]), true});
  }
  return refused;
}

std::vector<ScreenRemark> RemarksOf(const RoundResult& result) {
  std::vector<ScreenRemark> remarks;
  for (size_t i = 0; i < result.norms.size(); ++i) {
    if (result.norms[i].action == NormAction::kPass) continue;
    remarks.push_back(
        {result.contributions[i].worker, NormClause(result.norms[i]), result.norms[i].action == NormAction::kClip});
  }
  return remarks;
}

// The screening result from the arrival of the bytes; none after a restart or an interrupted transfer.
std::optional<ContributionScreen> ScreenOf(JobData& data, const ContributionHeader& header) {
  MutexLock lock(data.mutex);
  const auto known = data.screens.find({header.target, header.worker});
  if (known == data.screens.end() || known->second.first != header.digest) return std::nullopt;
  return known->second.second;
}

// Lets the snapshots of this fragment that are still being written continue with a copy of its state.
void DetachShots(JobData& data, FragmentIndex fragment) {
  const auto [first, last] = data.shots.equal_range(fragment);
  if (first == last) return;
  bool copied = false;
  for (auto it = first; it != last; ++it) {
    const std::shared_ptr<StateShot> shot = it->second.lock();
    if (shot == nullptr) continue;
    shot->Detach();
    copied = copied || shot->copied_bytes() > 0;
  }
  data.shots.erase(first, last);
  if (!copied) data.shot_copies.erase(fragment);
}

std::shared_ptr<ShotCopies> CopiesOf(JobData& data, FragmentIndex fragment) {
  std::shared_ptr<ShotCopies>& copies = data.shot_copies[fragment];
  if (copies == nullptr) copies = ShotCopies::Make(1);
  return copies;
}

// Whether this is the last round of its fragment: a worker that contributed before the end contributes once
// more. The state alone does not show it, because an earlier round may close after the end has begun.
bool IsLast(const CloseRound& task, const JobRecord& job) {
  return job.state == JobState::kClosing && !task.contributions.empty() &&
         std::all_of(task.contributions.begin(), task.contributions.end(),
                     [&](const ContributionHeader& header) { return header.send_step >= job.stop_step; });
}

}  // namespace

void Remember(const RoundRecord& record, const JobSpec& spec, NormHistory& history) {
  std::vector<NormSample> merged;
  merged.reserve(record.contributions.size());
  for (const CommittedContribution& c : record.contributions)
    merged.push_back(SampleOf(c.header.worker, c.norm * c.clip_factor, c.header.steps, spec.sync.inner_steps));
  history.Add(merged, LearningRateAt(spec.inner, record.clock_step));
}

PublishedUpdate PublishedOf(const RoundRecord& record, CodecKind codec, RawBytes update) {
  const auto bytes = std::make_shared<const RawBytes>(std::move(update));
  const UpdateInfo info{.reached = record.reached,
                        .hash = record.hash,
                        .digest = record.update_digest,
                        .encoded_bytes = record.update_bytes,
                        .codec = codec};
  return {info, bytes, MakeMemorySource(Bytes(*bytes), bytes)};
}

void DataPlane::CloseRound(const struct CloseRound& task, const JobRecord& job, BootNumber boot) {
  const std::shared_ptr<JobData> data = jobs_.Find(task.job);
  if (data == nullptr) return Fail(task.job, absl::FailedPreconditionError("the job's parameters are not in memory"));
  // Contributions are read only when they are merged, so that only one round's are in memory.
  ++passes_;
  parts_.compute.Post([this, task, job, boot, data] {
    if (jobs_.Find(task.job) == data && !merge_no_more_) {
      ReadAndAggregate(data, task, job, boot);
      parts_.io.Post([this, data, key = RoundKey{task.job, task.epoch, task.target}] {
        if (jobs_.Find(data->job) != data) parts_.rounds.Close(key);  // the release did not find it open
      });
    }
    --passes_;
  });
}

void DataPlane::ReadAndAggregate(const std::shared_ptr<JobData>& data, const struct CloseRound& task,
                                 const JobRecord& job, BootNumber boot) {
  const RoundKey key{task.job, task.epoch, task.target};
  // After a restart the segment may hold contributions that an earlier process accepted.
  const absl::Status opened = OpenSegment(parts_.rounds, key, data->layout.digest, parts_.fatal);
  if (!opened.ok()) return Fail(task.job, opened);
  if (absl::Status read = ReadInputs(key, task.contributions); !read.ok())
    return Fail(task.job, Annotate(read, "an accepted contribution cannot be read back"));
  Aggregate(data, task, job, boot);
}

absl::Status DataPlane::ReadInputs(const RoundKey& key, const std::vector<ContributionHeader>& contributions) {
  inputs_.resize(contributions.size());
  std::vector<absl::Status> read(contributions.size());
  Spread(contributions.size(), parts_.threads, [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      auto bytes = parts_.rounds.ReadContribution(key, contributions[i].worker, std::move(inputs_[i]));
      read[i] = bytes.status();
      if (bytes.ok()) inputs_[i] = *std::move(bytes);
    }
  });
  const auto failed = std::find_if(read.begin(), read.end(), [](const absl::Status& status) { return !status.ok(); });
  return failed == read.end() ? absl::OkStatus() : *failed;
}

void DataPlane::Aggregate(std::shared_ptr<JobData> data, const struct CloseRound& task, const JobRecord& job,
                          BootNumber boot) {
  std::vector<RoundInput> inputs;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const ContributionHeader& header = task.contributions[i];
    inputs.push_back({.worker = header.worker,
                      .codec = header.codec,
                      .encoded = inputs_[i],
                      .tokens = header.tokens,
                      .steps = header.steps,
                      .shard_samples = ShardSamples(data->spec, header),
                      .screen = ScreenOf(*data, header)});
  }
  const JobSpec& spec = job.spec;
  OuterParameters outer = OuterParametersOf(spec);
  if (IsLast(task, job)) outer.momentum = ClosingMomentum(outer.momentum, spec.sync.inner_steps, inputs);
  const Instant begin = parts_.clock.Now();
  NormHistory& history = data->norms[task.target.fragment.value];
  const NormGate gate{history, spec.screens, LearningRateAt(spec.inner, task.clock_step), task.past_finished};
  DetachShots(*data, task.target.fragment);
  auto result =
      data->aggregator.CloseRound(task.target.fragment, task.target.version, inputs, outer, parts_.threads, &gate);
  if (!result.ok()) return Fail(task.job, Annotate(result.status(), "the round could not be aggregated"));
  if (!result->committed) return Emit(ContributionsScreened{task.job, task.epoch, task.target, RefusedOf(*result)});
  RoundMeasures measures = Measured(*result);
  measures.aggregate_ns = (parts_.clock.Now() - begin).ns;
  RoundRecord record{.job = task.job,
                     .epoch = task.epoch,
                     .reached = {task.target.fragment, result->reached},
                     .spec_revision = task.spec_revision,
                     .contributions = {},
                     .learning_rate = task.contributions.empty() ? 0 : outer.learning_rate,
                     .momentum = outer.momentum,
                     .hash = result->hash,
                     .update_digest = result->update_digest,
                     .update_bytes = result->update.size(),
                     .clock_step = task.clock_step,
                     .tokens = 0,
                     .boot = boot,
                     .wall_nanos = parts_.clock.WallNanos()};
  for (size_t i = 0; i < task.contributions.size(); ++i) {  // both are in worker-name order
    const ContributionReport& report = result->contributions[i];
    record.contributions.push_back({task.contributions[i], report.weight, report.clip_factor, report.norm});
    record.tokens += task.contributions[i].tokens;
  }
  Remember(record, spec, history);
  // The job ended, stopped or was rolled back during the merge: the result is not needed, and its
  // segment is closed.
  if (jobs_.Find(record.job) != data) return;
  {
    MutexLock lock(data->mutex);
    data->uncommitted[task.target.fragment] =
        PublishedOf(record, data->spec.sync.download_codec, std::move(result->update));
    data->measures[task.target.fragment] = measures;
  }
  // The contributions are durable and a repeated pass gives the same bits: the commit needs nothing else.
  const FragmentVersion reached = record.reached;
  Emit(RoundAggregated{task.job, task.epoch, reached, std::move(record), RemarksOf(*result)});
}

absl::Status DataPlane::LogUpdates(JobData& data, FragmentVersion up_to) {
  const auto due = [up_to](const PublishedUpdate& update) {
    return update.info.reached.fragment == up_to.fragment && update.info.reached.version <= up_to.version;
  };
  while (true) {
    PublishedUpdate update;
    {
      MutexLock lock(data.mutex);
      const auto first = std::find_if(data.unlogged.begin(), data.unlogged.end(), due);
      if (first == data.unlogged.end()) return absl::OkStatus();
      update = std::move(*first);
      data.unlogged.erase(first);
    }
    const FragmentVersion reached = update.info.reached;
    const RoundKey key{data.job, data.epoch, {reached.fragment, Version{reached.version.value - 1}}};
    absl::Status written = parts_.rounds.Open(key, data.layout.digest);
    if (written.ok()) written = parts_.rounds.WriteUpdate(key, update.info, *update.bytes);
    parts_.rounds.Close(key);
    if (!written.ok()) return Annotate(written, "the update of a committed round could not be made durable");
  }
}

void DataPlane::Committed(const RoundRecord& record) {
  const std::shared_ptr<JobData> data = jobs_.Find(record.job);
  if (data == nullptr || data->epoch != record.epoch) return;
  const FragmentIndex fragment = record.reached.fragment;
  bool owed = false;
  {
    MutexLock lock(data->mutex);
    owed = data->owed_snapshots.erase(fragment) > 0;
    const auto update = data->uncommitted.find(fragment);
    if (update != data->uncommitted.end()) {
      data->unlogged.push_back(update->second);
      data->published[fragment] = std::move(update->second);
      data->uncommitted.erase(update);
    }
    data->committed[fragment] = record.reached.version;
    std::erase_if(data->screens, [&](const auto& screen) {
      return screen.first.first.fragment == fragment && screen.first.first.version < record.reached.version;
    });
  }
  parts_.io.Post([this, data, reached = record.reached] {
    if (absl::Status logged = LogUpdates(*data, reached); !logged.ok()) return parts_.fatal(logged);
    parts_.rounds.Close({data->job, data->epoch, {reached.fragment, Version{reached.version.value - 1}}});
    DropLog(*data, reached);
  });
  JobData::Logged& logged = data->since_snapshot[fragment.value];
  logged.Add(record);
  const uint64_t state_bytes = 3 * sizeof(float) * data->layout.fragments[fragment.value].elements;
  if (!owed && (logged.bytes < state_bytes || logged.rounds < kRoundsPerSnapshot)) return;
  logged = {};
  TakeSnapshot(data, fragment, nullptr);
}

void DataPlane::DropLog(JobData& data, FragmentVersion head) {
  if (data.spec.checkpoint.keep_contributions) return;
  Version keep_from{Before(head.version, kVersionsForStragglers)};
  VersionPins::Kept kept;
  {
    MutexLock lock(data.mutex);
    keep_from = std::min(keep_from, data.snapshots[head.fragment]);
    kept = data.pins[head.fragment.value].KeptFor(data.committed[head.fragment], parts_.clock.Now());
  }
  const auto dropped = parts_.rounds.DropBefore(data.job, data.epoch, head.fragment, keep_from, kept.updates_from);
  if (!dropped.ok()) Warn("round log not shortened", data, head.fragment, dropped.status());
}

void DataPlane::TakeSnapshot(std::shared_ptr<JobData> data, FragmentIndex fragment,
                             std::shared_ptr<absl::Status> outcome) {
  parts_.compute.Post([this, data, fragment, outcome] {
    const FragmentStateView state = data->aggregator.StateWithoutZeros(fragment);
    const SnapshotKey key{data->job, data->epoch, {fragment, state.version}};
    {
      MutexLock lock(data->mutex);
      const auto [writing, first] = data->being_written.try_emplace(key.at);
      if (outcome != nullptr) writing->second.push_back(outcome);
      if (!first) return;  // one outcome for both, set before `outcome` is read
    }
    const Digest hash = data->aggregator.Hash(fragment);
    const auto shot = std::make_shared<StateShot>(FragmentArrays{state.public_copy, state.momentum, state.residual},
                                                  CopiesOf(*data, fragment));
    // Removes expired entries: with a full disk, an idle job adds one with each retry of its snapshot.
    std::erase_if(data->shots, [&](const auto& held) { return held.first == fragment && held.second.expired(); });
    data->shots.emplace(fragment, shot);
    parts_.io.Post([this, data, key, hash, shot] {
      if (absl::Status logged = LogUpdates(*data, key.at); !logged.ok()) return parts_.fatal(logged);
      parts_.snapshot_io.Post([this, data, key, hash, shot] {
        if (!WriteSnapshot(*data, key, *shot, hash).ok()) return;
        parts_.io.Post([this, data, at = key.at] { SnapshotWritten(*data, at); });
      });
    });
  });
}

absl::Status DataPlane::WriteSnapshot(JobData& data, const SnapshotKey& key, StateShot& shot, Digest hash) {
  absl::Status done = parts_.snapshots.Write(key, shot, hash, data.layout.digest);
  std::vector<std::shared_ptr<absl::Status>> outcomes;
  std::vector<std::function<void()>> waiting;
  {
    MutexLock lock(data.mutex);
    outcomes = std::move(data.being_written.extract(key.at).mapped());
    waiting.swap(data.behind_a_write);
    if (!done.ok()) data.owed_snapshots[key.at.fragment] = key.at.version;
  }
  for (const std::shared_ptr<absl::Status>& outcome : outcomes) {
    if (outcome->ok()) *outcome = done;
  }
  for (std::function<void()>& work : waiting) parts_.io.Post(std::move(work));
  // The log still holds everything. The next round retries, or the log would outgrow its bound.
  if (!done.ok()) Warn("snapshot not written", data, key.at.fragment, done);
  return done;
}

void DataPlane::SnapshotWritten(JobData& data, FragmentVersion written) {
  VersionPins::Kept kept;
  {
    MutexLock lock(data.mutex);
    data.snapshots[written.fragment] = written.version;
    const auto owed = data.owed_snapshots.find(written.fragment);
    if (owed != data.owed_snapshots.end() && owed->second <= written.version) data.owed_snapshots.erase(owed);
    kept = data.pins[written.fragment.value].KeptFor(data.committed[written.fragment], parts_.clock.Now());
  }
  DropLog(data, written);
  const absl::Status dropped = parts_.snapshots.DropBefore(data.job, data.epoch, written.fragment, written.version,
                                                           data.spec.checkpoint.keep_contributions, kept.snapshot);
  if (!dropped.ok()) Warn("older snapshots not removed", data, written.fragment, dropped);
}

void DataPlane::SnapshotAll(std::shared_ptr<LastSnapshots> last, std::function<void()> done) {
  last->done = std::move(done);
  LoadedJobs::All jobs = jobs_.Look();
  last->loading = std::move(jobs.loading);
  for (const auto& data : jobs.loaded) {
    MutexLock lock(data->mutex);
    for (const auto& [fragment, version] : data->committed) {
      if (data->snapshots[fragment] != version) last->fragments.emplace_back(data, fragment);
    }
  }
  BehindSnapshots([this, last = std::move(last)] { SnapshotNext(last); });
}

void DataPlane::SnapshotNext(std::shared_ptr<LastSnapshots> last) {
  while (last->next < last->fragments.size() && last->go_on && last->why.ok()) {
    const auto& [data, fragment] = last->fragments[last->next++];
    const Version version = data->aggregator.version(fragment);
    {
      MutexLock lock(data->mutex);
      if (data->committed[fragment] != version) continue;  // merged too late to be committed
      if (data->snapshots[fragment] == version) {          // was in progress
        ++last->written;
        continue;
      }
    }
    const auto outcome = std::make_shared<absl::Status>();
    TakeSnapshot(data, fragment, outcome);
    return BehindSnapshots([this, last, outcome] {
      last->why = *outcome;
      if (outcome->ok()) ++last->written;
      SnapshotNext(last);
    });
  }
  last->done();
}

void DataPlane::Warn(const char* what, const JobData& data, FragmentIndex fragment, const absl::Status& why) {
  parts_.log.Warn(what,
                  {{"job", data.job.value}, {"fragment", fragment.value}, {"reason", std::string(why.message())}});
}

void DataPlane::WriteCheckpoint(const struct WriteCheckpoint& task) {
  const std::shared_ptr<JobData> data = jobs_.Find(task.job);
  if (data == nullptr) return Fail(task.job, absl::FailedPreconditionError("the job's parameters are not in memory"));
  const auto outcome = std::make_shared<absl::Status>();
  for (uint32_t i = 0; i < data->layout.fragments.size(); ++i) TakeSnapshot(data, FragmentIndex{i}, outcome);
  // Posted along the executors of the snapshots, after them, so that the files exist when links are
  // made. A later round's snapshot, which drops these files, comes after this.
  parts_.compute.Post([this, task, data, outcome] {
    CheckpointRecord record{.job = task.job,
                            .step = task.step,
                            .versions = task.versions,
                            .hashes = {},
                            .complete = true,
                            .pool_consumed = task.pool_consumed,
                            .pool_frontier = task.pool_frontier,
                            .wall_nanos = parts_.clock.WallNanos()};
    for (uint32_t i = 0; i < data->layout.fragments.size(); ++i)
      record.hashes.push_back(data->aggregator.Hash(FragmentIndex{i}));
    parts_.io.Post([this, record, outcome, epoch = data->epoch] {
      parts_.snapshot_io.Post([this, record, outcome, epoch] {
        const absl::Status written = outcome->ok() ? parts_.snapshots.WriteCheckpoint(record, epoch) : *outcome;
        if (absl::IsResourceExhausted(written))
          return Emit(CheckpointDelayed{record.job, record.step, std::string(written.message())});
        if (!written.ok())
          return Fail(record.job,
                      Annotate(written, absl::StrCat("the checkpoint at step ", record.step, " could not be written")));
        Emit(CheckpointWritten{record.job, record.step, record.hashes, record.wall_nanos});
      });
    });
  });
}

void DataPlane::DropCheckpoint(const struct DropCheckpoint& task) {
  const auto drop = [this, task] {
    const absl::Status dropped = parts_.snapshots.DropCheckpoint(task.job, task.step);
    if (!dropped.ok())
      parts_.log.Warn("checkpoint not removed",
                      {{"job", task.job.value}, {"step", task.step}, {"reason", std::string(dropped.message())}});
  };
  // Posted along the executors of a checkpoint that is written: an abandoned one is written before
  // it is removed.
  parts_.compute.Post([this, drop] { parts_.io.Post([this, drop] { parts_.snapshot_io.Post(drop); }); });
}

}  // namespace atl
