// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/replay.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/audit/codecs.h"
#include "coordinator/audit/ledger_checks.h"
#include "coordinator/audit/ledger_reader.h"
#include "coordinator/audit/outer_step.h"
#include "coordinator/audit/segment_reader.h"
#include "coordinator/audit/snapshot_reader.h"
#include "coordinator/audit/state_paths.h"

namespace atl::audit {
namespace {

constexpr char kRollBack[] =
    "what workers were sent is not what the contributions give: roll the job back to a checkpoint before it";

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// The rounds of one fragment in one epoch.
class FragmentReplay {
 public:
  FragmentReplay(const Place& place, const JobStanding& standing, const JobFiles& job_files, FileKey key,
                 Report& report)
      : files_(place.files),
        job_(standing.job->job),
        rule_(RuleOf(standing.job->spec.spec())),
        job_files_(job_files),
        key_(key),
        keeps_(standing.job->spec.spec().checkpoint().keep_contributions()),
        present_(key.epoch == standing.epoch),
        place_(place),
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
      const std::optional<v1::SnapshotHeader> header = ReadSnapshot(files_, link->second, job_, report_);
      if (header && header->epoch() == key_.epoch && header->job() == job_)
        starts_.emplace(header->at().version(), link->second);
    }
  }

  // Rounds before the newest snapshot may be dropped, unless contributions are kept.
  bool MustBeHeld(uint64_t version) const {
    return keeps_ || (present_ && newest_snapshot_ && version >= *newest_snapshot_);
  }
  void Miss(uint64_t version) {
    report_.Count("rounds missing");
    report_.Damage({SegmentPath(place_.root, job_, key_), std::nullopt, job_,
                    absl::StrCat("version ", version + 1, " of fragment ", key_.fragment,
                                 " cannot be recomputed: the segment of its round is not there"),
                    kRestoreFile});
  }

  // If a state of this version is on disk: starts from it, or compares with it.
  void Meet(uint64_t version) {
    const auto start = starts_.find(version);
    if (start == starts_.end()) return;
    FragmentState there;
    const std::optional<v1::SnapshotHeader> header = ReadSnapshot(files_, start->second, job_, report_, &there);
    if (!header || there.version != version) return;
    layout_ = FromProto(header->layout());
    if (!state_) {
      state_ = std::move(there);
      return;
    }
    report_.Count("snapshots compared");
    Compare(start->second, "public copy", 0, state_->public_copy, there.public_copy);
    Compare(start->second, "momentum", 1, state_->momentum, there.momentum);
    Compare(start->second, "residual", 2, state_->residual, there.residual);
  }

  void Compare(const std::string& path, const char* what, uint64_t array, const std::vector<float>& ours,
               const std::vector<float>& theirs) {
    if (SameBits(ours, theirs)) return;
    uint64_t at = 0;
    while (at < ours.size() && at < theirs.size() &&
           std::bit_cast<uint32_t>(ours[at]) == std::bit_cast<uint32_t>(theirs[at]))
      ++at;
    report_.Damage({path, 4096 + 4 * (array * theirs.size() + at), job_,
                    absl::StrCat("the ", what, " is not what the rounds before give"), kRestoreFile});
  }

  // False if the state of the reached version is unknown.
  bool Replay(const std::string& path, const v1::RoundRecord& record) {
    if (record.arithmetic_revision() != kArithmeticKnown) {
      report_.Count("rounds of another arithmetic");
      report_.Note({path, std::nullopt, job_,
                    absl::StrCat("made by arithmetic revision ", record.arithmetic_revision(), ", this program knows ",
                                 kArithmeticKnown),
                    kNewerProgram});
      return false;
    }
    if (!state_) {
      report_.Count("rounds without a state to start from");
      return false;
    }
    const std::optional<Segment> segment = ReadSegment(files_, path, job_, report_);
    if (!segment) return false;
    const absl::Status done = Recompute(*segment, record);
    report_.Count(done.ok() ? "rounds equal" : "rounds that differ");
    if (done.ok()) {
      CheckUpdateIsHere(*segment, record);
      return true;
    }
    const bool ours = absl::IsInternal(done);  // recomputed, with a different result
    report_.Damage(
        {path, ours ? std::optional(differs_at_) : std::nullopt, job_,
         absl::StrCat("version ", record.reached().version(), " of fragment ", key_.fragment, ": ", done.message()),
         ours ? kRollBack : kRestoreFile});
    return false;
  }

  // The update is flushed before any snapshot of its version or a later one. If such a snapshot
  // exists, a missing update was lost.
  void CheckUpdateIsHere(const Segment& segment, const v1::RoundRecord& record) {
    const uint64_t reached = record.reached().version();
    if (segment.update || !newest_snapshot_ || *newest_snapshot_ < reached)
      return NoteTornTail(segment, job_, /*open=*/false, report_);
    report_.Damage(
        {segment.path, segment.scan.valid_bytes, job_,
         absl::StrCat("the update of the committed round that led to version ", reached, " of fragment ", key_.fragment,
                      " is missing, though a snapshot of version ", *newest_snapshot_, " is there"),
         kRestoreFile});
  }

  absl::Status Recompute(const Segment& segment, const v1::RoundRecord& record) {
    std::vector<std::vector<std::byte>> bytes;
    std::vector<StepInput> inputs;
    bytes.reserve(static_cast<size_t>(record.contributions_size()));
    for (const v1::CommittedContribution& c : record.contributions()) {
      const auto found = segment.accepted.find(c.worker());
      if (found == segment.accepted.end())
        return absl::DataLossError(absl::StrCat("the contribution of worker ", c.worker(), " is not in the segment"));
      ATOLL_ASSIGN_OR_RETURN(std::vector<std::byte> encoded, ReadExtents(*segment.file, found->second.pieces));
      if (DigestOf(encoded) != FromProto(c.digest()))
        return absl::DataLossError(
            absl::StrCat("the contribution of worker ", c.worker(), " does not have the ledger's digest"));
      if (EncodedBytes(c.codec(), state_->public_copy.size()) != encoded.size())
        return absl::DataLossError(
            absl::StrCat("the contribution of worker ", c.worker(), " does not have the size of its codec"));
      const double norm = NormOf(c.codec(), encoded, state_->public_copy.size());
      if (std::bit_cast<uint64_t>(norm) != std::bit_cast<uint64_t>(c.norm()))
        return absl::DataLossError(absl::StrCat("the contribution of worker ", c.worker(), " has the norm ", norm,
                                                ", not the recorded ", c.norm()));
      bytes.push_back(std::move(encoded));
      inputs.push_back({c.codec(), bytes.back(), c.tokens(), c.steps(), ShardSamplesOf(rule_, c), c.clip_factor()});
    }
    if (!EncodedBytes(rule_.codec, 0)) return absl::DataLossError("the job's download codec is unknown");
    rule_.learning_rate = record.learning_rate();
    rule_.momentum = record.momentum();
    const std::vector<double> weights = WeightsOf(rule_, inputs);
    differs_at_ = segment.update ? segment.update->record_offset : segment.scan.valid_bytes;
    for (size_t i = 0; i < weights.size(); ++i) {
      const double recorded = record.contributions(static_cast<int>(i)).weight();
      if (std::bit_cast<uint64_t>(weights[i]) != std::bit_cast<uint64_t>(recorded))
        return absl::InternalError(absl::StrCat("the weight of worker ",
                                                record.contributions(static_cast<int>(i)).worker(), " is ", weights[i],
                                                ", not the recorded ", recorded));
    }
    return ComparePublished(segment, record, TakeOuterStep(rule_, inputs, weights, *state_));
  }

  absl::Status ComparePublished(const Segment& segment, const v1::RoundRecord& record,
                                const std::vector<std::byte>& ours) {
    // A missing update is replaced by its digest in the ledger. Verify checks whether it may be missing.
    ATOLL_ASSIGN_OR_RETURN(const std::vector<std::byte> published,
                           segment.update ? ReadExtents(*segment.file, {segment.update->bytes})
                                          : absl::StatusOr<std::vector<std::byte>>(ours));
    const auto [a, b] = std::mismatch(ours.begin(), ours.end(), published.begin(), published.end());
    if (a != ours.end() || b != published.end()) {
      const uint64_t at = static_cast<uint64_t>(b - published.begin());
      differs_at_ = segment.update->bytes.offset + at;
      return absl::InternalError(
          absl::StrCat("the published update differs from the recomputed one from its byte ", at, " on"));
    }
    if (DigestOf(ours) != FromProto(record.update_digest()))
      return absl::InternalError("the ledger has another digest of the update than the recomputed one");
    const Digest hash = HashOfFragment(state_->public_copy, state_->version, layout_);
    if (hash == FromProto(record.hash())) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("the recomputed version has the hash ", hash.Hex(), ", the ledger has ",
                                            FromProto(record.hash()).Hex()));
  }

  const Files& files_;
  const std::string job_;
  OuterRule rule_;
  const JobFiles& job_files_;
  FileKey key_;
  const bool keeps_, present_;  // all rounds; the job's current epoch
  const Place& place_;
  Report& report_;
  std::map<uint64_t, std::string> starts_;
  std::optional<uint64_t> newest_snapshot_;
  std::optional<FragmentState> state_;
  Digest layout_;
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
  for (const auto& [name, standing] : CheckLedger(*image, report)) {
    if (standing.job->Purged()) continue;
    const auto found = state.jobs.find(name);
    const JobFiles& files = found == state.jobs.end() ? none : found->second;
    for (const auto& [key, line] : standing.lines)
      FragmentReplay(place, standing, files, {key.first, key.second, 0}, report).Run(line);
  }
  return absl::OkStatus();
}

}  // namespace atl::audit
