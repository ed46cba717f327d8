// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/files_checks.h"

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/audit/codecs.h"
#include "coordinator/audit/file_bytes.h"
#include "coordinator/audit/segment_reader.h"
#include "coordinator/audit/snapshot_reader.h"

namespace atl::audit {
namespace {

constexpr char kOlderLedger[] =
    "the ledger comes from an older copy than this file: put the whole state directory back from one backup";

class JobFilesChecker {
 public:
  JobFilesChecker(const Files& files, const std::string& root, const LedgerMeta& meta, const JobStanding& standing,
                  Report& report)
      : files_(files), root_(root), meta_(meta), standing_(standing), job_(standing.job->job), report_(report) {}

  void Run(const JobFiles& job_files) {
    for (const auto& [key, path] : job_files.snapshots) {
      snapshots_.insert(key);
      CheckSnapshot(key, path);
    }
    for (const auto& [key, path] : job_files.segments) CheckSegment(key, path);
    for (const auto& [key, path] : job_files.updates) CheckKeptUpdate(key, path);
    for (const auto& [step, found] : job_files.checkpoints) {
      if (standing_.checkpoints.contains(step)) continue;
      report_.Note({found.directory, std::nullopt, job_, "a checkpoint that the ledger does not have",
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
    report_.Damage({path, offset, job_, problem, way_out});
  }

  const FragmentLine* Line(uint64_t epoch, uint32_t fragment) const {
    const auto it = standing_.lines.find({epoch, fragment});
    return it == standing_.lines.end() ? nullptr : &it->second;
  }

  // All files of a job must have one layout.
  void CheckLayout(const std::string& path, const v1::Digest& layout) {
    if (!layout_) layout_ = FromProto(layout);
    if (*layout_ != FromProto(layout)) Wrong(path, 0, "it is of another model layout than the other files of the job");
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
    const std::optional<v1::SnapshotHeader> header = ReadSnapshot(files_, path, job_, report_);
    report_.Count("snapshots");
    if (!header) return;
    const bool named = header->job() == job_ && header->epoch() == key.epoch &&
                       header->at().fragment() == key.fragment && header->at().version() == key.version;
    if (!named)
      return Wrong(path, 16, "it is the snapshot of another fragment, version, epoch or job than its name says");
    CheckLayout(path, header->layout());
    elements_[key.fragment] = header->elements();
    const FragmentLine* const line = Line(key.epoch, key.fragment);
    // A snapshot may be of a version that is still being committed.
    if (line == nullptr || key.version > line->head + 1 || header->boot() > meta_.boot)
      return Wrong(path, 16, "the ledger knows neither this version nor the start that wrote it", kOlderLedger);
    const std::optional<Digest> hash = HashOf(key.epoch, key.fragment, key.version);
    if (hash && *hash != FromProto(header->hash()))
      return Wrong(
          path, 16,
          absl::StrCat("its content hash is ", FromProto(header->hash()).Hex(), ", the ledger has ", hash->Hex()));
    if (key.version <= line->head) whole_snapshots_.insert(key);
  }

  // ---- segments

  void CheckSegment(const FileKey& key, const std::string& path) {
    report_.Count("segments");
    const std::optional<Segment> segment = ReadSegment(files_, path, job_, report_);
    if (!segment) return;
    const FragmentLine* const line = Line(key.epoch, key.fragment);
    if (line == nullptr || key.version < line->base || key.version > line->head)
      return Wrong(path, 0, "the ledger knows no such round", kOlderLedger);
    const LedgerRound* const round = line->Find(key.version + 1);
    const bool committed = round != nullptr;
    // The data of a committed round was flushed: a torn tail that holds some of it is damage, reported below.
    if (!committed || HoldsAll(*segment, key, *round->record)) NoteTornTail(*segment, job_, !committed, report_);
    if (segment->scan.records.empty()) {
      if (committed)
        Wrong(path, 0, absl::StrCat(Whole(*segment), ": the contributions of ", Round(*round->record), " are missing"));
      return;
    }
    const v1::SegmentHeader& header = segment->header;
    if (!IsNamed(header, key)) return Wrong(path, 0, "it belongs to another round than its name says");
    CheckLayout(path, header.layout());
    if (segment->last_boot > meta_.boot)
      Wrong(path, 24, absl::StrCat("it was written by start ", segment->last_boot, ", the ledger knows ", meta_.boot),
            kOlderLedger);
    for (const auto& [worker, contribution] : segment->accepted) CheckContribution(*segment, key, worker, contribution);
    if (segment->update) CheckUpdate(*segment);
    if (committed) CheckCommitted(*segment, key, *round->record);
  }

  void CheckContribution(const Segment& segment, const FileKey& key, const std::string& worker,
                         const SegmentContribution& contribution) {
    report_.Count("contributions");
    const v1::ContributionHeader& header = contribution.header;
    const std::string what = absl::StrCat("the contribution of worker ", worker);
    const bool named =
        header.job() == job_ && header.target().fragment() == key.fragment && header.target().version() == key.version;
    if (!named) Wrong(segment.path, contribution.record_offset, absl::StrCat(what, " is for another round"));
    const absl::StatusOr<Digest> digest = DigestOfExtents(*segment.file, contribution.pieces);
    if (!digest.ok() || *digest != FromProto(header.digest())) {
      const uint64_t at = contribution.pieces.empty() ? contribution.record_offset : contribution.pieces.front().offset;
      Wrong(segment.path, at, absl::StrCat(what, " does not have its digest"));
    }
    const auto elements = elements_.find(key.fragment);
    const auto codec = static_cast<v1::CodecKind>(header.codec());
    if (elements != elements_.end() && EncodedBytes(codec, elements->second) != header.encoded_bytes())
      Wrong(segment.path, contribution.record_offset, absl::StrCat(what, " has not the size of its codec"));
  }

  void CheckUpdate(const Segment& segment) {
    report_.Count("updates");
    if (HasItsDigest(segment)) return;
    Wrong(segment.path, segment.update->bytes.offset, "the update does not have its digest");
  }

  // Whether the segment's update has its digest.
  static bool HasItsDigest(const Segment& segment) {
    const absl::StatusOr<Digest> digest = DigestOfExtents(*segment.file, {segment.update->bytes});
    return digest.ok() && *digest == FromProto(segment.update->record.digest());
  }

  bool IsNamed(const v1::SegmentHeader& header, const FileKey& key) const {
    return header.job() == job_ && header.epoch() == key.epoch && header.target().fragment() == key.fragment &&
           header.target().version() == key.version;
  }

  // Unusable kept updates are no damage: they are not flushed, nothing starts from them, and the
  // coordinator checks their digest before serving them.
  void CheckKeptUpdate(const FileKey& key, const std::string& path) {
    report_.Count("kept updates");
    Report found("", "");
    const std::optional<Segment> segment = ReadSegment(files_, path, job_, found);
    std::string problem = found.ok() ? "" : found.damage().front().problem;
    if (segment) problem = WrongWithKept(key, *segment);
    if (!problem.empty())
      report_.Note(
          {path, std::nullopt, job_, problem, "it is not served: a worker that lacks it fetches the fragment"});
  }

  std::string WrongWithKept(const FileKey& key, const Segment& segment) const {
    if (!segment.update) return "a kept update that is not whole";
    if (!IsNamed(segment.header, key)) return "the kept update of another round than its name says";
    const FragmentLine* const line = Line(key.epoch, key.fragment);
    const LedgerRound* const round = line == nullptr ? nullptr : line->Find(key.version + 1);
    if (round != nullptr && FromProto(segment.update->record.digest()) != round->update_digest)
      return "a kept update that is another one than the ledger has committed";
    return HasItsDigest(segment) ? "" : "a kept update that does not have its digest";
  }

  // The update of a round is written after its commit, and flushed before any snapshot of its version or a
  // later one. Until such a snapshot exists, the update can be recomputed from the contributions.
  bool MayOweUpdate(const FileKey& key) const {
    const auto behind = snapshots_.upper_bound(key);
    return behind == snapshots_.end() || behind->epoch != key.epoch || behind->fragment != key.fragment;
  }

  bool HoldsAll(const Segment& segment, const FileKey& key, const v1::RoundRecord& record) const {
    const auto& counted = record.contributions();
    return (segment.update || MayOweUpdate(key)) &&
           std::all_of(counted.begin(), counted.end(),
                       [&](const v1::CommittedContribution& c) { return segment.accepted.contains(c.worker()); });
  }

  static std::string Round(const v1::RoundRecord& record) {
    return absl::StrCat("the committed round that led to version ", record.reached().version());
  }

  // How much of the file is valid, as the beginning of a clause.
  static std::string Whole(const Segment& segment) {
    const Scan& scan = segment.scan;
    if (scan.broken.empty()) return absl::StrCat("the file ends after ", scan.file_bytes, " bytes");
    return absl::StrCat("only ", scan.valid_bytes, " of its ", scan.file_bytes, " bytes are whole (", scan.broken, ")");
  }

  // The round is committed: the segment must hold every contribution that the ledger counts.
  void CheckCommitted(const Segment& segment, const FileKey& key, const v1::RoundRecord& record) {
    report_.Count("committed rounds held");
    const uint64_t end = segment.scan.valid_bytes;
    for (const v1::CommittedContribution& c : record.contributions()) {
      const auto found = segment.accepted.find(c.worker());
      if (found == segment.accepted.end()) {
        Wrong(segment.path, end,
              absl::StrCat(Whole(segment), ": the contribution of worker ", c.worker(), " to ", Round(record),
                           " is missing"));
      } else if (!SameContribution(c, found->second.header)) {
        Wrong(segment.path, found->second.record_offset,
              absl::StrCat("the contribution of worker ", c.worker(), " is another one than the ledger counts"));
      }
    }
    if (!segment.update && MayOweUpdate(key)) return report_.Count("updates to be recomputed");
    if (!segment.update)
      return Wrong(segment.path, end, absl::StrCat(Whole(segment), ": the update of ", Round(record), " is missing"));
    const v1::UpdateRecord& update = segment.update->record;
    const bool same = update.reached().version() == record.reached().version() &&
                      update.reached().fragment() == record.reached().fragment() &&
                      FromProto(update.digest()) == FromProto(record.update_digest()) &&
                      FromProto(update.hash()) == FromProto(record.hash()) &&
                      update.encoded_bytes() == record.update_bytes() &&
                      update.arithmetic_revision() == record.arithmetic_revision();
    if (!same)
      Wrong(segment.path, segment.update->record_offset, "its update is another one than the ledger has committed");
  }

  static bool SameContribution(const v1::CommittedContribution& row, const v1::ContributionHeader& header) {
    return FromProto(row.digest()) == FromProto(header.digest()) && row.encoded_bytes() == header.encoded_bytes() &&
           static_cast<int32_t>(row.codec()) == header.codec() && row.incarnation() == header.incarnation() &&
           row.tokens() == header.tokens() && row.steps() == header.steps() && row.send_step() == header.send_step() &&
           row.mean_loss_micro() == header.mean_loss_micro();
  }

  // ---- checkpoints

  void CheckCheckpoint(const LedgerCheckpoint& row, const CheckpointFiles* found) {
    report_.Count("checkpoints");
    const std::string directory = CheckpointDirectory(root_, job_, row.step);
    if (found == nullptr || !found->manifest) {
      Wrong(JoinPath(directory, "manifest"), std::nullopt,
            absl::StrCat("the checkpoint at step ", row.step, ", which the ledger has, is not there"));
      return;
    }
    const std::string path = JoinPath(directory, "manifest");
    const std::optional<v1::CheckpointManifest> manifest = ReadManifest(files_, path, job_, report_);
    if (!manifest) return;
    const std::vector<uint64_t> versions(manifest->versions().begin(), manifest->versions().end());
    std::vector<Digest> hashes;
    for (const v1::Digest& hash : manifest->hashes()) hashes.push_back(FromProto(hash));
    if (manifest->job() != job_ || manifest->step() != row.step || versions != row.versions || hashes != row.hashes ||
        manifest->wall_nanos() != row.wall_nanos || manifest->pool_consumed() != row.pool_consumed ||
        manifest->pool_frontier() != row.pool_frontier || manifest->boot() == 0 || manifest->boot() > meta_.boot)
      Wrong(path, 0, "it is another manifest than the ledger knows");
    for (uint32_t f = 0; f < row.versions.size() && f < row.hashes.size(); ++f) CheckLink(row, f, *manifest, *found);
  }

  void CheckLink(const LedgerCheckpoint& row, uint32_t fragment, const v1::CheckpointManifest& manifest,
                 const CheckpointFiles& found) {
    const auto link = found.fragments.find(fragment);
    if (link == found.fragments.end())
      return Wrong(found.directory, std::nullopt,
                   absl::StrCat("fragment ", fragment, " of the checkpoint is not there"));
    const std::optional<v1::SnapshotHeader> header = ReadSnapshot(files_, link->second, job_, report_);
    if (!header) return;
    const bool same = header->job() == job_ && header->epoch() == manifest.epoch() &&
                      header->at().fragment() == fragment && header->at().version() == row.versions[fragment] &&
                      FromProto(header->hash()) == row.hashes[fragment];
    if (!same) Wrong(link->second, 16, "it is another fragment or version than the ledger has for this checkpoint");
    CheckLayout(link->second, header->layout());
  }

  // ---- required files

  // Every round from the newest whole snapshot to the head must have a segment. If contributions
  // are kept, every round must.
  void CheckPresence(uint64_t epoch, uint32_t fragment, const FragmentLine& line, const JobFiles& job_files) {
    uint64_t from = line.head;
    if (epoch == standing_.epoch && standing_.job->parameters_ready) {
      const std::optional<uint64_t> newest = NewestSnapshot(epoch, fragment);
      const bool to_be_restored = line.head == line.base && standing_.started_from.contains(epoch);
      if (!newest && !to_be_restored)
        report_.Damage({absl::StrCat(root_, "/jobs/", job_, "/snapshots"), std::nullopt, job_,
                        absl::StrCat("fragment ", fragment, " has no whole snapshot at or below its committed version ",
                                     line.head),
                        "put the snapshots back from a backup, or roll the job back to a checkpoint"});
      if (newest) from = *newest;
    }
    if (standing_.job->spec.spec().checkpoint().keep_contributions() && line.head > line.base) {
      from = line.base;
      if (!whole_snapshots_.contains({epoch, fragment, line.base}))
        Wrong(absl::StrCat(root_, "/jobs/", job_, "/snapshots"), std::nullopt,
              absl::StrCat("fragment ", fragment, " has no whole snapshot of version ", line.base,
                           ", which the kept rounds of epoch ", epoch, " begin from"));
    }
    for (uint64_t version = from; version < line.head; ++version) {
      const FileKey key{epoch, fragment, version};
      if (job_files.segments.contains(key)) continue;
      Wrong(SegmentPath(root_, job_, key), std::nullopt,
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
  const std::string& root_;
  const LedgerMeta& meta_;
  const JobStanding& standing_;
  const std::string job_;
  Report& report_;
  std::optional<Digest> layout_;
  std::map<uint32_t, uint64_t> elements_;  // by fragment, from the snapshots
  std::set<FileKey> snapshots_, whole_snapshots_;
};

// SHA-256 of a file in lower-case hexadecimal.
absl::StatusOr<std::string> HashOfFile(const Files& files, const std::string& path) {
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, files.OpenForRead(path));
  ATOLL_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  Sha256Hasher hasher;
  for (uint64_t at = 0; at < size; at += kReadBytes) {
    ATOLL_ASSIGN_OR_RETURN(const std::string piece, ReadText(*file, at, std::min(kReadBytes, size - at)));
    hasher.Update(AsBytes(piece));
  }
  return hasher.Finish().Hex();
}

std::set<std::string> NeededBlobs(const v1::JobSpec& spec) {
  std::set<std::string> needed;
  for (const v1::CorpusSpec& corpus : spec.data().corpora()) needed.insert(corpus.manifest_sha256());
  needed.insert(spec.data().tokenizer_sha256().begin(), spec.data().tokenizer_sha256().end());
  needed.insert(spec.model().init().safetensors_sha256().begin(), spec.model().init().safetensors_sha256().end());
  for (const v1::EvaluationTaskSpec& task : spec.evaluation().tasks()) needed.insert(task.file_sha256());
  needed.erase("");
  return needed;
}

}  // namespace

void CheckJobFiles(const Files& files, const std::string& root, const LedgerMeta& meta, const JobStanding& standing,
                   const JobFiles& job_files, Report& report) {
  JobFilesChecker(files, root, meta, standing, report).Run(job_files);
}

void CheckBlobs(const Files& files, const StateFiles& state, Report& report) {
  for (const auto& [name, path] : state.blobs) {
    report.Count("stored files");
    const absl::StatusOr<std::string> hash = HashOfFile(files, path);
    if (!hash.ok()) {
      report.Damage({path, std::nullopt, "", std::string(hash.status().message()), kRestoreFile});
    } else if (*hash != name) {
      report.Damage({path, 0, "", absl::StrCat("its SHA-256 is ", *hash, ", not its name"), kRestoreFile});
    }
  }
}

void CheckNeededBlobs(const std::string& root, const LedgerImage& image, const StateFiles& state, Report& report) {
  for (const LedgerJob& job : image.jobs) {
    if (job.Purged()) continue;
    for (const std::string& name : NeededBlobs(job.spec.spec())) {
      if (state.blobs.contains(name)) continue;
      report.Damage({absl::StrCat(root, "/blobs/", name.substr(0, 2), "/", name), std::nullopt, job.job,
                     "a stored file that the job needs is not there", kRestoreFile});
    }
  }
}

}  // namespace atl::audit
