// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/files_checks.h"

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/codec/codec.h"
#include "common/plan/model_layout.h"
#include "coordinator/audit/segment_reader.h"
#include "coordinator/audit/snapshot_reader.h"
#include "coordinator/store/pieces.h"

namespace atl::audit {
namespace {

constexpr char kOlderLedger[] =
    "the ledger comes from an older copy than this file: put the whole state directory back from one backup";

ModelLayout LayoutOf(const JobSpec& spec) {
  return MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment);
}

class JobFilesChecker {
 public:
  JobFilesChecker(const Files& files, const std::string& root, BootNumber boot, const JobStanding& standing,
                  Report& report)
      : files_(files),
        directory_(root),
        boot_(boot),
        standing_(standing),
        job_(standing.job->job),
        layout_(LayoutOf(standing.job->spec)),
        report_(report) {}

  void Run(const JobFiles& job_files) {
    for (const auto& [key, path] : job_files.snapshots) {
      snapshots_.insert(key);
      CheckSnapshot(key, path);
    }
    for (const auto& [key, path] : job_files.segments) CheckSegment(key, path);
    for (const auto& [key, path] : job_files.updates) CheckKeptUpdate(key, path);
    for (const auto& [step, found] : job_files.checkpoints) {
      if (standing_.checkpoints.contains(step)) continue;
      report_.Note({found.directory, std::nullopt, job_.value, "a checkpoint that the ledger does not have",
                    "the next start removes it, unless it is newer than the ledger"});
    }
    for (const auto& [step, row] : standing_.checkpoints) {
      const auto found = job_files.checkpoints.find(step);
      if (row->complete) CheckCheckpoint(*row, found == job_files.checkpoints.end() ? nullptr : &found->second);
    }
    for (const auto& [key, line] : standing_.lines) CheckPresence(key.first, key.second, line, job_files);
  }

 private:
  void Wrong(const std::string& path, std::optional<uint64_t> offset, const std::string& problem,
             const char* way_out = kRestoreFile) {
    report_.Damage({path, offset, job_.value, problem, way_out});
  }

  const FragmentLine* Line(uint64_t epoch, uint32_t fragment) const {
    const auto it = standing_.lines.find({epoch, fragment});
    return it == standing_.lines.end() ? nullptr : &it->second;
  }

  void CheckLayout(const std::string& path, const Digest& layout) {
    if (layout != layout_.digest) Wrong(path, 0, "it is of another model layout than the job");
  }

  // The ledger's hash of a version; nothing if the ledger has none.
  std::optional<Digest> HashOf(uint64_t epoch, uint32_t fragment, uint64_t version) const {
    const FragmentLine* const line = Line(epoch, fragment);
    if (line == nullptr) return std::nullopt;
    if (const LedgerRound* const round = line->Find(version)) return round->hash;
    const auto start = standing_.started_from.find(epoch);
    if (version != line->base || start == standing_.started_from.end() || start->second->hashes.size() <= fragment)
      return std::nullopt;
    return start->second->hashes[fragment];
  }

  // ---- snapshots

  void CheckSnapshot(const FileKey& key, const std::string& path) {
    const std::optional<SnapshotHeader> header = ReadSnapshot(files_, path, job_.value, report_);
    report_.Count("snapshots");
    if (!header) return;
    if (header->job != job_ || header->epoch != key.epoch || header->at != key.At())
      return Wrong(path, 16, "it is the snapshot of another fragment, version, epoch or job than its name says");
    CheckLayout(path, header->layout);
    const FragmentLine* const line = Line(key.epoch, key.fragment);
    // A snapshot may be of a version that is still being committed.
    if (line == nullptr || key.version > line->head + 1 || header->boot > boot_)
      return Wrong(path, 16, "the ledger knows neither this version nor the start that wrote it", kOlderLedger);
    const std::optional<Digest> hash = HashOf(key.epoch, key.fragment, key.version);
    if (hash && *hash != header->hash)
      return Wrong(path, 16,
                   absl::StrCat("its content hash is ", header->hash.Hex(), ", the ledger has ", hash->Hex()));
    if (key.version <= line->head) whole_snapshots_.insert(key);
  }

  // ---- segments

  void CheckSegment(const FileKey& key, const std::string& path) {
    report_.Count("segments");
    const std::optional<Segment> segment = ReadSegment(files_, path, job_.value, report_);
    if (!segment) return;
    const FragmentLine* const line = Line(key.epoch, key.fragment);
    if (line == nullptr || key.version < line->base || key.version > line->head)
      return Wrong(path, 0, "the ledger knows no such round", kOlderLedger);
    const LedgerRound* const round = line->Find(key.version + 1);
    const bool committed = round != nullptr;
    // The data of a committed round was flushed: a torn tail that holds some of it is damage, reported below.
    if (!committed || HoldsAll(*segment, key, *round->record)) NoteTornTail(*segment, job_.value, !committed, report_);
    if (segment->scan.valid_bytes == 0) {
      if (committed)
        Wrong(path, 0, absl::StrCat(Whole(*segment), ": the contributions of ", Round(*round->record), " are missing"));
      return;
    }
    if (!IsNamed(segment->header, key)) return Wrong(path, 0, "it belongs to another round than its name says");
    CheckLayout(path, segment->header.layout);
    if (segment->scan.last_boot > boot_.value)
      Wrong(path, 24,
            absl::StrCat("it was written by start ", segment->scan.last_boot, ", the ledger knows ", boot_.value),
            kOlderLedger);
    for (const auto& [worker, contribution] : segment->accepted) CheckContribution(path, key, contribution);
    if (segment->update) {
      report_.Count("updates");
      if (!UpdateHasDigest(*segment))
        Wrong(path, segment->update_bytes.file_offset, "the update does not have its digest");
    }
    if (committed) CheckCommitted(*segment, key, *round->record);
  }

  void CheckContribution(const std::string& path, const FileKey& key, const RoundContribution& contribution) {
    report_.Count("contributions");
    const ContributionHeader& header = contribution.record.header;
    const std::string what = absl::StrCat("the contribution of worker ", header.worker.value);
    const std::optional<uint64_t> at = BeginOf(contribution);
    if (header.job != job_ || header.target != key.At()) Wrong(path, at, absl::StrCat(what, " is for another round"));
    const bool known = key.fragment < layout_.fragments.size();
    if (known && EncodedSize(header.codec, layout_.fragments[key.fragment].elements) != header.encoded_bytes)
      Wrong(path, at, absl::StrCat(what, " has not the size of its codec"));
  }

  static std::optional<uint64_t> BeginOf(const RoundContribution& contribution) {
    if (contribution.chunks.empty()) return std::nullopt;
    return contribution.chunks.front().file_offset;
  }

  bool IsNamed(const SegmentHeader& header, const FileKey& key) const {
    return header.job == job_ && header.epoch == key.epoch && header.target == key.At();
  }

  // Unusable kept updates are noted and no damage: they are not flushed, nothing starts from them, and
  // the coordinator checks their digest before it serves them.
  void CheckKeptUpdate(const FileKey& key, const std::string& path) {
    report_.Count("kept updates");
    Report found("", "");
    const std::optional<Segment> segment = ReadSegment(files_, path, job_.value, found);
    std::string problem = found.ok() ? "" : found.damage().front().problem;
    if (segment) problem = WrongWithKept(key, *segment);
    if (!problem.empty())
      report_.Note(
          {path, std::nullopt, job_.value, problem, "it is not served: a worker that lacks it fetches the fragment"});
  }

  std::string WrongWithKept(const FileKey& key, const Segment& segment) const {
    if (!segment.update) return "a kept update that is not whole";
    if (!IsNamed(segment.header, key)) return "the kept update of another round than its name says";
    const FragmentLine* const line = Line(key.epoch, key.fragment);
    const LedgerRound* const round = line == nullptr ? nullptr : line->Find(key.version + 1);
    if (round != nullptr && segment.update->digest != round->update_digest)
      return "a kept update that is another one than the ledger has committed";
    return UpdateHasDigest(segment) ? "" : "a kept update that does not have its digest";
  }

  // Whether the round's update may be missing. An update is written after the commit, and flushed before any snapshot
  // of its version or a later one. Until such a snapshot exists, the contributions suffice to recompute the update.
  bool MayOweUpdate(const FileKey& key) const {
    const auto behind = snapshots_.upper_bound(key);
    return behind == snapshots_.end() || behind->epoch != key.epoch || behind->fragment != key.fragment;
  }

  bool HoldsAll(const Segment& segment, const FileKey& key, const RoundRecord& record) const {
    return (segment.update || MayOweUpdate(key)) &&
           std::all_of(record.contributions.begin(), record.contributions.end(),
                       [&](const CommittedContribution& c) { return segment.accepted.contains(c.header.worker); });
  }

  static std::string Round(const RoundRecord& record) {
    return absl::StrCat("the committed round that led to version ", record.reached.version.value);
  }

  // How much of the file is valid, as the beginning of a clause.
  static std::string Whole(const Segment& segment) {
    const ScanResult& scan = segment.scan;
    if (scan.broken.empty()) return absl::StrCat("the file ends after ", scan.file_bytes, " bytes");
    return absl::StrCat("only ", scan.valid_bytes, " of its ", scan.file_bytes, " bytes are whole (", scan.broken, ")");
  }

  // The round is committed: the segment must hold every contribution that the ledger counts, and the ledger's update.
  void CheckCommitted(const Segment& segment, const FileKey& key, const RoundRecord& record) {
    report_.Count("committed rounds held");
    const uint64_t end = segment.scan.valid_bytes;
    for (const CommittedContribution& c : record.contributions) {
      const std::string what = absl::StrCat("the contribution of worker ", c.header.worker.value);
      const auto found = segment.accepted.find(c.header.worker);
      if (found == segment.accepted.end()) {
        Wrong(segment.path, end, absl::StrCat(Whole(segment), ": ", what, " to ", Round(record), " is missing"));
      } else if (!SameContribution(c.header, found->second.record.header)) {
        Wrong(segment.path, BeginOf(found->second), absl::StrCat(what, " is another one than the ledger counts"));
      }
    }
    if (!segment.update && MayOweUpdate(key)) return report_.Count("updates to be recomputed");
    if (!segment.update)
      return Wrong(segment.path, end, absl::StrCat(Whole(segment), ": the update of ", Round(record), " is missing"));
    const UpdateInfo& update = *segment.update;
    const bool same = update.reached == record.reached && update.digest == record.update_digest &&
                      update.hash == record.hash && update.encoded_bytes == record.update_bytes &&
                      update.arithmetic_revision == record.arithmetic_revision;
    if (!same)
      Wrong(segment.path, segment.update_bytes.file_offset, "its update is another one than the ledger has committed");
  }

  static bool SameContribution(const ContributionHeader& row, const ContributionHeader& header) {
    return row.digest == header.digest && row.encoded_bytes == header.encoded_bytes && row.codec == header.codec &&
           row.incarnation == header.incarnation && row.tokens == header.tokens && row.steps == header.steps &&
           row.send_step == header.send_step && row.mean_loss_micro == header.mean_loss_micro;
  }

  // ---- checkpoints

  void CheckCheckpoint(const CheckpointRecord& row, const CheckpointFiles* found) {
    report_.Count("checkpoints");
    const std::string path = JoinPath(directory_.CheckpointDirectory(job_, row.step), "manifest");
    if (found == nullptr || !found->manifest) {
      return Wrong(path, std::nullopt,
                   absl::StrCat("the checkpoint at step ", row.step, ", which the ledger has, is not there"));
    }
    const std::optional<CheckpointManifest> manifest = ReadManifest(files_, path, job_.value, report_);
    if (!manifest) return;
    const CheckpointRecord& stored = manifest->record;
    if (stored.job != job_ || stored.step != row.step || stored.versions != row.versions ||
        stored.hashes != row.hashes || stored.wall_nanos != row.wall_nanos ||
        stored.pool_consumed != row.pool_consumed || stored.pool_frontier != row.pool_frontier ||
        manifest->boot.value == 0 || manifest->boot > boot_)
      Wrong(path, 0, "it is another manifest than the ledger knows");
    for (uint32_t f = 0; f < row.versions.size() && f < row.hashes.size(); ++f) CheckLink(row, f, *manifest, *found);
  }

  void CheckLink(const CheckpointRecord& row, uint32_t fragment, const CheckpointManifest& manifest,
                 const CheckpointFiles& found) {
    const auto link = found.fragments.find(fragment);
    if (link == found.fragments.end())
      return Wrong(found.directory, std::nullopt,
                   absl::StrCat("fragment ", fragment, " of the checkpoint is not there"));
    const std::optional<SnapshotHeader> header = ReadSnapshot(files_, link->second, job_.value, report_);
    if (!header) return;
    const FragmentVersion at{{fragment}, row.versions[fragment]};
    if (header->job != job_ || header->epoch != manifest.epoch || header->at != at ||
        header->hash != row.hashes[fragment])
      Wrong(link->second, 16, "it is another fragment or version than the ledger has for this checkpoint");
    CheckLayout(link->second, header->layout);
  }

  // ---- required files

  // In the job's present epoch there must be a whole snapshot, unless a rollback's is still to be restored, and a
  // segment of every round since. With keep_contributions, every epoch must have its first snapshot and all segments.
  void CheckPresence(uint64_t epoch, uint32_t fragment, const FragmentLine& line, const JobFiles& job_files) {
    uint64_t from = line.head;
    if (epoch == standing_.epoch && standing_.job->parameters_ready) {
      const std::optional<uint64_t> newest = NewestSnapshot(epoch, fragment);
      const bool to_be_restored = line.head == line.base && standing_.started_from.contains(epoch);
      if (!newest && !to_be_restored)
        report_.Damage({directory_.SnapshotsDirectory(job_), std::nullopt, job_.value,
                        absl::StrCat("fragment ", fragment, " has no whole snapshot at or below its committed version ",
                                     line.head),
                        "put the snapshots back from a backup, or roll the job back to a checkpoint"});
      if (newest) from = *newest;
    }
    if (standing_.job->spec.checkpoint.keep_contributions && line.head > line.base) {
      from = line.base;
      if (!whole_snapshots_.contains({epoch, fragment, line.base}))
        Wrong(directory_.SnapshotsDirectory(job_), std::nullopt,
              absl::StrCat("fragment ", fragment, " has no whole snapshot of version ", line.base,
                           ", which the kept rounds of epoch ", epoch, " begin from"));
    }
    for (uint64_t version = from; version < line.head; ++version) {
      const FileKey key{epoch, fragment, version};
      if (job_files.segments.contains(key)) continue;
      Wrong(directory_.SegmentPath({job_, epoch, key.At()}), std::nullopt,
            absl::StrCat("the segment of the round that led to version ", version + 1, " is not there"));
    }
  }

  std::optional<uint64_t> NewestSnapshot(uint64_t epoch, uint32_t fragment) const {
    std::optional<uint64_t> newest;
    for (const FileKey& key : whole_snapshots_) {
      if (key.epoch == epoch && key.fragment == fragment) newest = key.version;
    }
    return newest;
  }

  const Files& files_;
  const DataDirectory directory_;
  const BootNumber boot_;
  const JobStanding& standing_;
  const JobId job_;
  const ModelLayout layout_;
  Report& report_;
  std::set<FileKey> snapshots_, whole_snapshots_;
};

std::set<Sha256> NeededBlobs(const JobSpec& spec) {
  std::set<Sha256> needed;
  for (const auto& corpus : spec.data.corpora) needed.insert(corpus.manifest);
  needed.insert(spec.data.tokenizer_files.begin(), spec.data.tokenizer_files.end());
  needed.insert(spec.init.safetensors.begin(), spec.init.safetensors.end());
  for (const auto& task : spec.evaluation.tasks) needed.insert(task.file);
  needed.erase(Sha256());
  return needed;
}

}  // namespace

void CheckJobFiles(const Files& files, const std::string& root, BootNumber boot, const JobStanding& standing,
                   const JobFiles& job_files, Report& report) {
  JobFilesChecker(files, root, boot, standing, report).Run(job_files);
}

void CheckBlobs(const Files& files, const StateFiles& state, Report& report) {
  for (const auto& [name, path] : state.blobs) {
    report.Count("stored files");
    const absl::StatusOr<Sha256> hash = HashFile(files, path);
    if (!hash.ok()) {
      report.Damage({path, std::nullopt, "", std::string(hash.status().message()), kRestoreFile});
    } else if (*hash != name) {
      report.Damage({path, 0, "", absl::StrCat("its SHA-256 is ", hash->Hex(), ", not its name"), kRestoreFile});
    }
  }
}

void CheckNeededBlobs(const std::string& root, const LedgerImage& image, const StateFiles& state, Report& report) {
  for (const auto& [id, job] : image.jobs) {
    if (IsPurged(job)) continue;
    for (const Sha256& name : NeededBlobs(job.spec)) {
      if (state.blobs.contains(name)) continue;
      report.Damage({DataDirectory(root).BlobPath(name), std::nullopt, id.value,
                     "a stored file that the job needs is not there", kRestoreFile});
    }
  }
}

}  // namespace atl::audit
