// SPDX-License-Identifier: Apache-2.0
// Brings a job's parameters into memory: makes, loads, recomputes. Each step posts the next one to
// its executor.
#include <algorithm>
#include <deque>
#include <utility>

#include "common/base/spread.h"
#include "common/codec/codec.h"
#include "common/format/model_tensors.h"
#include "common/plan/shards.h"
#include "common/wire/resource_names.h"
#include "coordinator/engine/data_plane.h"
#include "coordinator/store/held_rounds.h"

namespace atl {

struct DataPlane::Preparation {
  uint64_t number = 0;  // from Expect
  JobRecord job;
  std::vector<FragmentHead> heads;
  std::shared_ptr<JobData> data;
  std::deque<RoundRecord> rounds;    // still to be recomputed
  std::vector<Version> snapshot_at;  // version loaded, by fragment
  bool from_nothing = false;         // version 0 has to be made
};

namespace {

PeriodTraffic TrafficOf(const JobData& data) {
  PeriodTraffic traffic;
  for (const FragmentInfo& fragment : data.layout.fragments) {
    const uint64_t up = EncodedSize(data.spec.sync.upload_codec, fragment.elements);
    const uint64_t down = EncodedSize(data.spec.sync.download_codec, fragment.elements);
    traffic.upload_bytes += up;
    traffic.download_bytes += down;
    if (up + down > traffic.largest_upload_bytes + traffic.largest_download_bytes) {
      traffic.largest_upload_bytes = up;
      traffic.largest_download_bytes = down;
    }
  }
  return traffic;
}

// Fragments loaded in parallel. Each needs its memory twice meanwhile.
constexpr unsigned kLoadsAtOnce = 4;

// Calls load(fragment) for every fragment, some in parallel. Returns the first failure in fragment
// order; fragments after a failed one may be skipped.
template <typename Load>
absl::Status LoadEach(const JobData& data, unsigned threads, const Load& load) {
  std::vector<absl::Status> outcomes(data.layout.fragments.size());
  Spread(outcomes.size(), std::min(threads, kLoadsAtOnce), [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      outcomes[i] = load(FragmentIndex{static_cast<uint32_t>(i)});
      if (!outcomes[i].ok()) return;
    }
  });
  const auto failed = std::ranges::find_if(outcomes, [](const absl::Status& outcome) { return !outcome.ok(); });
  return failed == outcomes.end() ? absl::OkStatus() : *failed;
}

// Reads the initial parameters from the job's safetensors blobs into `arena`, until `go_on` returns false.
absl::Status ReadSafetensors(const Files& files, const DataDirectory& directory, const JobSpec& spec,
                             const ModelLayout& layout, std::span<float> arena, const std::function<bool()>& go_on) {
  CheckpointFiles blobs;
  for (const Sha256& blob : spec.init.safetensors) blobs.paths.push_back(directory.BlobPath(blob));
  ATOLL_ASSIGN_OR_RETURN(const auto reader, SafetensorsReader::Open(files, blobs));
  return Annotate(ReadModelTensors(*reader, layout, arena, go_on), "the initial weights");
}

absl::Status RestoreFrom(const LoadedSnapshot& snapshot, FragmentIndex fragment, Version version,
                         Aggregator& aggregator) {
  return aggregator.Restore(fragment, {version, snapshot.public_copy, snapshot.momentum, snapshot.residual});
}

}  // namespace

void DataPlane::BehindSnapshots(std::function<void()> work) {
  // `work` passes through the executors of an earlier preparation, then of a snapshot's steps: take, log the update,
  // write, publish. So it runs after both. The list is in reverse: its last executor is the first.
  for (Executor* const executor :
       {&parts_.prepare, &parts_.io, &parts_.snapshot_io, &parts_.io, &parts_.compute, &parts_.prepare})
    work = [executor, next = std::move(work)]() mutable { executor->Post(std::move(next)); };
  work();
}

void DataPlane::Prepare(const JobRecord& job, std::vector<FragmentHead> heads) {
  auto p = std::make_shared<Preparation>();
  p->number = Expect(job.job);
  p->job = job;
  p->heads = std::move(heads);
  // Waits for an earlier load of the same job and epoch. Its running writes would be removed as
  // unfinished, and it could drop the rounds that this preparation recomputes.
  BehindSnapshots([this, p] {
    for (uint32_t i = 0; i < p->heads.size(); ++i) {
      const absl::Status dropped = parts_.snapshots.DropUnfinished(p->job.job, p->job.epoch, FragmentIndex{i});
      if (!dropped.ok())
        parts_.log.Warn("unfinished snapshots not removed",
                        {{"job", p->job.job.value}, {"reason", std::string(dropped.message())}});
    }
    p->data = std::make_shared<JobData>(p->job.job, p->job.epoch, p->job.spec);
    LoadSnapshots(p);
  });
}

void DataPlane::LoadSnapshots(std::shared_ptr<Preparation> p) {
  JobData& data = *p->data;
  const size_t fragments = data.layout.fragments.size();
  for (uint32_t i = 0; i < fragments; ++i) {
    const FragmentIndex fragment{i};
    const auto newest = parts_.snapshots.NewestUpTo(data.job, data.epoch, fragment, p->heads[i].version);
    if (!newest.ok()) return Fail(*p, newest.status());
    if (!newest->has_value()) {
      if (p->heads[i].version.value > 0) {
        return Fail(*p, absl::DataLossError(absl::StrCat(
                            "fragment ", i, " of job ", data.job.value,
                            " has no snapshot of its committed version or an earlier one: ", p->heads[i].version.value,
                            " in ", parts_.directory.SnapshotDirectory(data.job, data.epoch, fragment),
                            "; restore the file from a backup, or roll the job back to a checkpoint")));
      }
      p->from_nothing = true;
      return MakeVersionZero(p);
    }
    p->snapshot_at.push_back(**newest);
  }
  const absl::Status loaded = LoadEach(data, parts_.threads, [&](FragmentIndex fragment) -> absl::Status {
    if (!IsExpected(*p)) return absl::CancelledError();
    const Version newest = p->snapshot_at[fragment.value];
    ATOLL_ASSIGN_OR_RETURN(const LoadedSnapshot snapshot,
                           parts_.snapshots.Load({data.job, data.epoch, {fragment, newest}}, data.layout.digest));
    ATOLL_RETURN_IF_ERROR(RestoreFrom(snapshot, fragment, newest, data.aggregator));
    MutexLock lock(data.mutex);
    data.snapshots[fragment] = newest;
    return absl::OkStatus();
  });
  if (!loaded.ok()) return Fail(*p, loaded);
  parts_.ledger_executor.Post([this, p] { ReadRounds(p); });
}

void DataPlane::MakeVersionZero(std::shared_ptr<Preparation> p) {
  JobData& data = *p->data;
  const JobSpec& spec = data.spec;
  const bool from_checkpoint = !spec.init.checkpoint.empty();
  std::vector<float> arena(from_checkpoint ? 0 : data.layout.elements);
  if (!spec.init.safetensors.empty()) {
    const absl::Status read = ReadSafetensors(parts_.files, parts_.directory, spec, data.layout, arena,
                                              [this, &p] { return IsExpected(*p); });
    if (!read.ok()) return Fail(*p, read);
  } else if (!from_checkpoint) {
    Spread(arena.size(), parts_.threads, [&](size_t first, size_t last) {
      InitialParameters(data.layout, spec.init.seed, first, std::span(arena).subspan(first, last - first));
    });
  }
  for (uint32_t i = 0; i < data.layout.fragments.size(); ++i) {
    const FragmentInfo& fragment = data.layout.fragments[i];
    absl::Status restored;
    if (from_checkpoint) {
      const auto name = ParseCheckpointName(spec.init.checkpoint);
      if (!name.ok()) return Fail(*p, name.status());
      const auto loaded =
          parts_.snapshots.LoadCheckpointFragment(name->job, name->step, FragmentIndex{i}, data.layout.digest);
      if (!loaded.ok()) return Fail(*p, Annotate(loaded.status(), spec.init.checkpoint));
      restored = RestoreFrom(*loaded, FragmentIndex{i}, Version{0}, data.aggregator);
    } else {
      restored = data.aggregator.Restore(
          FragmentIndex{i},
          {Version{0}, std::span<const float>(arena).subspan(fragment.offset, fragment.elements), {}, {}});
    }
    if (!restored.ok()) return Fail(*p, restored);
  }
  parts_.snapshot_io.Post([this, p] { WriteSnapshotsThenReady(p); });
}

void DataPlane::WriteSnapshotsThenReady(std::shared_ptr<Preparation> p) {
  JobData& data = *p->data;
  for (uint32_t i = 0; i < data.layout.fragments.size(); ++i) {
    if (!IsExpected(*p)) return;  // cancelled; its files are being removed
    const FragmentStateView state = data.aggregator.StateWithoutZeros(FragmentIndex{i});
    const absl::Status written =
        parts_.snapshots.Write({data.job, data.epoch, {FragmentIndex{i}, state.version}},
                               FragmentArrays{state.public_copy, state.momentum, state.residual},
                               data.aggregator.Hash(FragmentIndex{i}), data.layout.digest);
    if (absl::IsResourceExhausted(written)) return Emit(PreparationDelayed{data.job, std::string(written.message())});
    if (!written.ok()) return Fail(*p, Annotate(written, "version 0 could not be written"));
    MutexLock lock(data.mutex);
    data.snapshots[FragmentIndex{i}] = state.version;
  }
  AnnounceReady(*p);
}

void DataPlane::ReadRounds(std::shared_ptr<Preparation> p) {
  for (uint32_t i = 0; i < p->heads.size(); ++i) {
    // Restores the norm screen's history, so that a restart does not change its decisions.
    const uint64_t head = p->heads[i].version.value;
    const Version known{head - std::min<uint64_t>(head, kNormRounds)};
    const auto screened = parts_.ledger.Rounds(p->data->job, p->data->epoch, FragmentIndex{i}, known, kNormRounds);
    if (!screened.ok()) return Fail(*p, screened.status());
    for (const RoundRecord& record : *screened) {
      // The inner learning rate of an older revision is no longer known.
      if (record.spec_revision == p->job.spec_revision) Remember(record, p->data->spec, p->data->norms[i]);
    }
    const Version after = p->snapshot_at[i];
    if (after == p->heads[i].version) continue;
    auto rounds = parts_.ledger.Rounds(p->data->job, p->data->epoch, FragmentIndex{i}, after,
                                       p->heads[i].version.value - after.value);
    if (!rounds.ok()) return Fail(*p, rounds.status());
    for (RoundRecord& record : *rounds) p->rounds.push_back(std::move(record));
  }
  parts_.io.Post([this, p] { ReplayNext(p); });
}

void DataPlane::ReplayNext(std::shared_ptr<Preparation> p) {
  if (!IsExpected(*p)) return;
  if (p->rounds.empty()) {
    parts_.prepare.Post([this, p] {
      for (uint32_t i = 0; i < p->heads.size(); ++i) {
        // Version 0 is a snapshot, not a round: the ledger holds no hash of it, and the snapshot
        // verified its own.
        if (p->heads[i].version.value == 0 && p->heads[i].hash.IsZero()) continue;
        if (p->data->aggregator.Hash(FragmentIndex{i}) == p->heads[i].hash) continue;
        return Fail(
            *p, absl::DataLossError(absl::StrCat(
                    "fragment ", i, " of job ", p->data->job.value, " at version ", p->heads[i].version.value,
                    " does not have the hash in the ledger; start the program of the version that wrote it, or roll "
                    "the job back to a checkpoint")));
      }
      AnnounceReady(*p);
    });
    return;
  }
  const RoundRecord record = std::move(p->rounds.front());
  p->rounds.pop_front();
  const RoundKey key{
      p->data->job, p->data->epoch, {record.reached.fragment, Version{record.reached.version.value - 1}}};
  const absl::Status opened = parts_.rounds.OpenCommitted(key, p->data->layout.digest);
  if (!opened.ok()) return Fail(*p, opened);
  std::vector<std::vector<std::byte>> inputs;
  for (const CommittedContribution& contribution : record.contributions) {
    auto bytes = parts_.rounds.ReadContribution(key, contribution.header.worker);
    if (!bytes.ok()) {
      parts_.rounds.Close(key);  // a retry reads it again after a repair
      const absl::Status held = CheckHeldRound(parts_.files, parts_.directory, record);
      return Fail(*p, held.ok() ? bytes.status() : held);
    }
    inputs.push_back(*std::move(bytes));
  }
  const auto update = parts_.rounds.FindUpdate(key);
  const bool owed = !update.ok() || update->digest != record.update_digest;
  const absl::Status flushed = owed ? absl::OkStatus() : parts_.rounds.MakeDurable(key);
  parts_.rounds.Close(key);
  if (!flushed.ok())
    return parts_.fatal(Annotate(flushed, "the update of a committed round could not be made durable"));
  parts_.prepare.Post(
      [this, p, record, inputs = std::move(inputs), owed]() mutable { ReplayOne(p, record, std::move(inputs), owed); });
}

void DataPlane::ReplayOne(std::shared_ptr<Preparation> p, const RoundRecord& record,
                          std::vector<std::vector<std::byte>> bytes, bool owed) {
  std::vector<RoundInput> inputs;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const ContributionHeader& header = record.contributions[i].header;
    inputs.push_back(
        {header.worker, header.codec, bytes[i], header.tokens, header.steps, ShardSamples(p->data->spec, header)});
    inputs.back().clip_factor = record.contributions[i].clip_factor;
  }
  OuterParameters outer = OuterParametersOf(p->data->spec);
  outer.learning_rate = record.learning_rate;
  outer.momentum = record.momentum;
  auto result = p->data->aggregator.CloseRound(record.reached.fragment, Version{record.reached.version.value - 1},
                                               inputs, outer, parts_.threads);
  if (!result.ok()) return Fail(*p, result.status());
  if (!result->committed || result->hash != record.hash || result->update_digest != record.update_digest) {
    return Fail(
        *p, absl::DataLossError(absl::StrCat("round ", record.reached.version.value, " of fragment ",
                                             record.reached.fragment.value, " of job ", p->data->job.value,
                                             " recomputed from the log has another hash than the ledger; run the "
                                             "program of the version that wrote it, or roll back to a checkpoint")));
  }
  p->data->since_snapshot[record.reached.fragment.value].Add(record);
  if (owed) {
    PublishedUpdate update = PublishedOf(record, p->data->spec.sync.download_codec, std::move(result->update));
    MutexLock lock(p->data->mutex);
    p->data->published[record.reached.fragment] = update;  // rounds come in order: the last is the newest
    p->data->unlogged.push_back(std::move(update));
  }
  parts_.io.Post([this, p] { ReplayNext(p); });
}

bool DataPlane::IsExpected(const Preparation& p) const {
  return !merge_no_more_ && jobs_.IsExpected(p.data->job, p.number);
}

void DataPlane::Fail(const Preparation& p, const absl::Status& status) {
  if (IsExpected(p)) Fail(p.data->job, status);
}

void DataPlane::AnnounceReady(const Preparation& p) {
  std::vector<Digest> hashes;
  JobData& data = *p.data;
  {
    MutexLock lock(data.mutex);
    for (uint32_t i = 0; i < data.layout.fragments.size(); ++i)
      data.committed[FragmentIndex{i}] = data.aggregator.version(FragmentIndex{i});
  }
  for (uint32_t i = 0; i < data.layout.fragments.size(); ++i) hashes.push_back(data.aggregator.Hash(FragmentIndex{i}));
  if (!jobs_.Put(p.data, p.number)) return;
  Emit(ParametersReady{data.job, std::move(hashes), TrafficOf(data)});
  if (data.epoch == 0 || data.spec.checkpoint.keep_contributions) return;
  BehindSnapshots(
      [this, job = data.job, epoch = data.epoch] { parts_.io.Post([this, job, epoch] { DropGivenUp(job, epoch); }); });
}

void DataPlane::CheckCheckpoint(const struct CheckCheckpoint& task, const JobSpec& spec) {
  parts_.prepare.Post([this, task, spec] {
    const Digest layout = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment).digest;
    absl::Status whole;
    for (uint32_t i = 0; i < task.versions.size() && whole.ok(); ++i) {
      const auto header = parts_.snapshots.CheckCheckpointFragment(task.job, task.step, FragmentIndex{i}, layout);
      whole = header.status();
      if (!whole.ok()) break;
      const bool same = header->at == FragmentVersion{FragmentIndex{i}, task.versions[i]} &&
                        (i >= task.hashes.size() || header->hash == task.hashes[i]);
      if (!same)
        whole = absl::DataLossError(absl::StrCat("fragment ", i, " of the checkpoint is not the one in the ledger"));
    }
    Emit(CheckpointChecked{task.job, task.step, std::move(whole)});
  });
}

void DataPlane::RestoreCheckpoint(const struct RestoreCheckpoint& task, const JobRecord& job) {
  Release(task.job);  // data of another epoch; pending writes keep a reference
  const uint64_t number = Expect(task.job);
  BehindSnapshots([this, number, task, job] {  // so that two epochs are never in memory at once
    auto p = std::make_shared<Preparation>();
    p->number = number;
    p->data = std::make_shared<JobData>(task.job, task.epoch, job.spec);
    JobData& data = *p->data;
    const absl::Status loaded = LoadEach(data, parts_.threads, [&](FragmentIndex fragment) -> absl::Status {
      if (!IsExpected(*p)) return absl::CancelledError();
      ATOLL_ASSIGN_OR_RETURN(const LoadedSnapshot snapshot, parts_.snapshots.LoadCheckpointFragment(
                                                                task.job, task.step, fragment, data.layout.digest));
      return RestoreFrom(snapshot, fragment, snapshot.header.at.version, data.aggregator);
    });
    if (!loaded.ok()) return Fail(*p, loaded);
    parts_.snapshot_io.Post([this, p] { WriteSnapshotsThenReady(p); });
  });
}

}  // namespace atl
