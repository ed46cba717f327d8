// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/replay.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/codec/codec.h"
#include "common/plan/model_layout.h"
#include "common/plan/shards.h"
#include "coordinator/aggregate/aggregator.h"
#include "coordinator/audit/ledger_checks.h"
#include "coordinator/audit/ledger_reader.h"
#include "coordinator/audit/segment_reader.h"
#include "coordinator/audit/snapshot_reader.h"
#include "coordinator/audit/state_paths.h"

namespace atl::audit {
namespace {

constexpr char kRollBack[] =
    "what workers were sent is not what the contributions give: roll the job back to a checkpoint before it";
constexpr FragmentIndex kOnly{0};  // of an aggregator that has one fragment

bool SameBits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

ModelLayout OneFragment(const SnapshotHeader& header) {
  ModelLayout layout;
  layout.digest = header.layout;
  layout.elements = header.elements;
  layout.fragments = {{.elements = header.elements}};
  return layout;
}

// The rounds of one fragment in one epoch.
class FragmentReplay {
 public:
  FragmentReplay(const Place& place, const JobStanding& standing, const JobFiles& job_files, FileKey key,
                 Report& report)
      : files_(place.files),
        directory_(place.root),
        spec_(standing.job->spec),
        job_(standing.job->job),
        job_files_(job_files),
        key_(key),
        present_(key.epoch == standing.epoch),
        report_(report) {}

  void Run(const FragmentLine& line) {
    FindStarts();
    for (uint64_t version = line.base; version < line.head; ++version) {
      key_.version = version;
      const auto segment = job_files_.segments.find(key_);
      const LedgerRound* const round = line.Find(version + 1);
      if (segment == job_files_.segments.end() || round == nullptr) {
        if (round != nullptr && MustBeHeld(version)) Miss(version);
        state_.reset();
        continue;
      }
      report_.Count("rounds held");
      Meet(version);
      if (!Replay(segment->second, *round->record)) state_.reset();
    }
    Meet(line.head);
  }

 private:
  // Finds the snapshots of this fragment and epoch, also those linked from checkpoints, by version.
  void FindStarts() {
    for (const auto& [key, path] : job_files_.snapshots) {
      if (key.epoch != key_.epoch || key.fragment != key_.fragment) continue;
      starts_[key.version] = path;
      newest_snapshot_ = std::max(newest_snapshot_.value_or(0), key.version);
    }
    for (const auto& [step, checkpoint] : job_files_.checkpoints) {
      const auto link = checkpoint.fragments.find(key_.fragment);
      if (link == checkpoint.fragments.end()) continue;
      const std::optional<SnapshotHeader> header = ReadSnapshot(files_, link->second, job_.value, report_);
      if (header && header->epoch == key_.epoch && header->job == job_)
        starts_.emplace(header->at.version.value, link->second);
    }
  }

  // Rounds of earlier epochs, or before the newest snapshot, may be dropped, unless contributions are kept.
  bool MustBeHeld(uint64_t version) const {
    return spec_.checkpoint.keep_contributions || (present_ && newest_snapshot_ && version >= *newest_snapshot_);
  }
  void Miss(uint64_t version) {
    report_.Count("rounds missing");
    report_.Damage({directory_.SegmentPath({job_, key_.epoch, key_.At()}), std::nullopt, job_.value,
                    absl::StrCat("version ", version + 1, " of fragment ", key_.fragment,
                                 " cannot be recomputed: the segment of its round is not there"),
                    kRestoreFile});
  }

  // If a state of this version is on disk: starts from it, or compares with it.
  void Meet(uint64_t version) {
    const auto start = starts_.find(version);
    if (start == starts_.end()) return;
    LoadedSnapshot there;
    const std::optional<SnapshotHeader> header = ReadSnapshot(files_, start->second, job_.value, report_, &there);
    if (!header || header->at.version.value != version) return;
    if (!state_) return Begin(start->second, there);
    report_.Count("snapshots compared");
    const FragmentStateView ours = state_->State(kOnly);
    Compare(start->second, "public copy", 0, ours.public_copy, there.public_copy);
    Compare(start->second, "momentum", 1, ours.momentum, there.momentum);
    Compare(start->second, "residual", 2, ours.residual, there.residual);
  }

  void Begin(const std::string& path, const LoadedSnapshot& there) {
    state_.emplace(OneFragment(there.header));
    const absl::Status restored =
        state_->Restore(kOnly, {there.header.at.version, there.public_copy, there.momentum, there.residual});
    if (restored.ok()) return;
    state_.reset();
    report_.Damage({path, std::nullopt, job_.value, std::string(restored.message()), kRestoreFile});
  }

  void Compare(const std::string& path, const char* what, uint64_t array, std::span<const float> ours,
               std::span<const float> theirs) {
    const auto same_bits = [](float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); };
    const auto [a, b] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end(), same_bits);
    if (a == ours.end() && b == theirs.end()) return;
    const auto at = static_cast<uint64_t>(b - theirs.begin());
    report_.Damage({path, 4096 + 4 * (array * theirs.size() + at), job_.value,
                    absl::StrCat("the ", what, " is not what the rounds before give"), kRestoreFile});
  }

  // False if the state of the reached version is unknown.
  bool Replay(const std::string& path, const RoundRecord& record) {
    if (record.arithmetic_revision != kArithmeticRevision) {
      report_.Count("rounds of another arithmetic");
      report_.Note({path, std::nullopt, job_.value,
                    absl::StrCat("made by arithmetic revision ", record.arithmetic_revision, ", this program knows ",
                                 kArithmeticRevision),
                    kNewerProgram});
      return false;
    }
    if (!state_) {
      report_.Count("rounds without a state to start from");
      return false;
    }
    const std::optional<Segment> segment = ReadSegment(files_, path, job_.value, report_);
    if (!segment) return false;
    const absl::Status done = Recompute(*segment, record);
    report_.Count(done.ok() ? "rounds equal" : "rounds that differ");
    if (done.ok()) {
      CheckUpdateIsHere(*segment, record);
      return true;
    }
    const bool ours = absl::IsInternal(done);  // recomputed, with a different result
    report_.Damage(
        {path, ours ? std::optional(differs_at_) : std::nullopt, job_.value,
         absl::StrCat("version ", record.reached.version.value, " of fragment ", key_.fragment, ": ", done.message()),
         ours ? kRollBack : kRestoreFile});
    return false;
  }

  // The update is flushed before any snapshot of its version or a later one. If such a snapshot
  // exists, a missing update was lost.
  void CheckUpdateIsHere(const Segment& segment, const RoundRecord& record) {
    const uint64_t reached = record.reached.version.value;
    if (segment.update || !newest_snapshot_ || *newest_snapshot_ < reached)
      return NoteTornTail(segment, job_.value, /*open=*/false, report_);
    report_.Damage(
        {segment.path, segment.scan.valid_bytes, job_.value,
         absl::StrCat("the update of the committed round that led to version ", reached, " of fragment ", key_.fragment,
                      " is missing, though a snapshot of version ", *newest_snapshot_, " is there"),
         kRestoreFile});
  }

  absl::Status Recompute(const Segment& segment, const RoundRecord& record) {
    std::vector<std::vector<std::byte>> bytes;
    std::vector<RoundInput> inputs;
    bytes.reserve(record.contributions.size());
    for (const CommittedContribution& c : record.contributions) {
      const std::string what = absl::StrCat("the contribution of worker ", c.header.worker.value);
      const auto found = segment.accepted.find(c.header.worker);
      if (found == segment.accepted.end()) return absl::DataLossError(absl::StrCat(what, " is not in the segment"));
      if (found->second.record.header.digest != c.header.digest)
        return absl::DataLossError(absl::StrCat(what, " does not have the ledger's digest"));
      ATOLL_ASSIGN_OR_RETURN(bytes.emplace_back(), ReadChunks(*segment.file, found->second.chunks));
      inputs.push_back({.worker = c.header.worker,
                        .codec = c.header.codec,
                        .encoded = bytes.back(),
                        .tokens = c.header.tokens,
                        .steps = c.header.steps,
                        .shard_samples = ShardSamples(spec_, c.header),
                        .clip_factor = c.clip_factor});
    }
    OuterParameters outer = OuterParametersOf(spec_);
    outer.learning_rate = record.learning_rate;
    outer.momentum = record.momentum;
    const absl::StatusOr<RoundResult> result = state_->CloseRound(kOnly, state_->version(kOnly), inputs, outer);
    if (!result.ok()) return absl::DataLossError(result.status().message());
    differs_at_ = segment.update ? segment.update_bytes.file_offset : segment.scan.valid_bytes;
    for (size_t i = 0; i < inputs.size(); ++i)
      ATOLL_RETURN_IF_ERROR(CompareContribution(record.contributions[i], result->contributions[i]));
    return ComparePublished(segment, record, *result);
  }

  static absl::Status CompareContribution(const CommittedContribution& recorded, const ContributionReport& ours) {
    const std::string& worker = recorded.header.worker.value;
    if (!ours.finite)
      return absl::DataLossError(
          absl::StrCat("the contribution of worker ", worker, " has a value that is not finite"));
    if (!SameBits(ours.norm, recorded.norm))
      return absl::DataLossError(absl::StrCat("the contribution of worker ", worker, " has the norm ", ours.norm,
                                              ", not the recorded ", recorded.norm));
    if (SameBits(ours.weight, recorded.weight)) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("the weight of worker ", worker, " is ", ours.weight, ", not the recorded ", recorded.weight));
  }

  absl::Status ComparePublished(const Segment& segment, const RoundRecord& record, const RoundResult& ours) {
    if (segment.update) {  // otherwise the ledger's digest stands for it; verify checks whether it may be missing
      ATOLL_ASSIGN_OR_RETURN(const std::vector<std::byte> published, ReadChunks(*segment.file, {segment.update_bytes}));
      const auto [a, b] = std::mismatch(ours.update.begin(), ours.update.end(), published.begin(), published.end());
      if (a != ours.update.end() || b != published.end()) {
        const uint64_t at = static_cast<uint64_t>(b - published.begin());
        differs_at_ = segment.update_bytes.file_offset + at;
        return absl::InternalError(
            absl::StrCat("the published update differs from the recomputed one from its byte ", at, " on"));
      }
    }
    if (ours.update_digest != record.update_digest)
      return absl::InternalError("the ledger has another digest of the update than the recomputed one");
    if (ours.hash == record.hash) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("the recomputed version has the hash ", ours.hash.Hex(), ", the ledger has ", record.hash.Hex()));
  }

  const Files& files_;
  const DataDirectory directory_;
  const JobSpec& spec_;
  const JobId job_;
  const JobFiles& job_files_;
  FileKey key_;
  const bool present_;  // the job's current epoch
  Report& report_;
  std::map<uint64_t, std::string> starts_;
  std::optional<uint64_t> newest_snapshot_;
  std::optional<Aggregator> state_;
  uint64_t differs_at_ = 0;
};

}  // namespace

absl::Status ReplayState(const Place& place, Report& report) {
  ATOLL_ASSIGN_OR_RETURN(const StateFiles state, ListState(place.files, place.root, report));
  ATOLL_ASSIGN_OR_RETURN(const std::optional<LedgerImage> image,
                         ReadLedger(place.ledger_files, place.ledger, report, CheckingRounds(state, report)));
  if (!image) return absl::OkStatus();
  for (const char* count :
       {"rounds held", "rounds equal", "rounds that differ", "rounds without a state to start from"})
    report.Count(count, 0);
  const JobFiles none;
  for (const auto& [id, standing] : CheckLedger(*image, report)) {
    if (IsPurged(*standing.job)) continue;
    const auto found = state.jobs.find(id.value);
    const JobFiles& files = found == state.jobs.end() ? none : found->second;
    for (const auto& [key, line] : standing.lines)
      FragmentReplay(place, standing, files, {key.first, key.second, 0}, report).Run(line);
  }
  return absl::OkStatus();
}

}  // namespace atl::audit
