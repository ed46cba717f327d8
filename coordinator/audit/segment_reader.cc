// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/segment_reader.h"

#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/store/pieces.h"
#include "coordinator/store/round_log.h"

namespace atl::audit {

std::optional<Segment> ReadSegment(const Files& files, const std::string& path, const std::string& job,
                                   Report& report) {
  const auto damage = [&](std::optional<uint64_t> offset, absl::string_view problem, const char* way_out) {
    report.Damage({path, offset, job, std::string(problem), way_out});
    return std::optional<Segment>();
  };
  absl::StatusOr<std::unique_ptr<File>> file = files.OpenForRead(path);
  if (!file.ok()) return damage(std::nullopt, file.status().message(), kRestoreFile);
  const auto read = std::make_shared<RoundSegment>(*std::move(file), path, BootNumber{});
  MutexLock lock(read->mutex);
  const auto visit = [&read](const ScannedRecord& record, Bytes head)
                         ATOLL_NO_THREAD_SAFETY_ANALYSIS { return read->Visit(record, head); };
  const absl::StatusOr<ScanResult> scan = ScanRecords(*read->file, visit);
  if (!scan.ok()) return damage(std::nullopt, scan.status().message(), kRestoreFile);
  if (read->header.format_revision > kSegmentRevision) {
    return damage(0,
                  absl::StrCat("format revision ", read->header.format_revision, " is newer than ", kSegmentRevision),
                  kNewerProgram);
  }
  if (scan->damaged()) {
    return damage(scan->valid_bytes,
                  absl::StrCat("damaged in the middle: ", scan->broken, ", and the record at offset ", *scan->proof,
                               " knows it to have been flushed"),
                  kRestoreFile);
  }
  if (!scan->refused.ok()) return damage(scan->valid_bytes, scan->refused.message(), kRestoreFile);
  Segment segment{.path = path, .file = {read, read->file.get()}, .scan = *scan, .header = read->header};
  for (auto& [worker, contribution] : read->contributions) {
    if (contribution.accepted) segment.accepted.emplace(worker, std::move(contribution));
  }
  if (read->has_update) segment.update = read->update;
  segment.update_bytes = read->update_bytes;
  return std::optional<Segment>(std::move(segment));
}

void NoteTornTail(const Segment& segment, const std::string& job, bool open, Report& report) {
  const ScanResult& scan = segment.scan;
  if (!scan.torn()) return;
  report.Count("torn tails");
  report.Note({segment.path, scan.valid_bytes, job,
               absl::StrCat("a torn tail of ", scan.file_bytes - scan.valid_bytes, " bytes (", scan.broken,
                            "): never flushed, or damaged since, which nothing behind it would show"),
               open ? "the next start cuts it off; workers that are still there send again what was in it"
                    : "no contribution that the committed round counts is in it"});
}

absl::StatusOr<std::vector<std::byte>> ReadChunks(const File& file, const std::vector<RoundChunk>& chunks) {
  std::vector<std::byte> out;
  for (const RoundChunk& chunk : chunks) {
    out.resize(out.size() + chunk.bytes);
    ATOLL_RETURN_IF_ERROR(file.ReadAt(chunk.file_offset, std::span(out).last(chunk.bytes)));
  }
  return out;
}

bool UpdateHasDigest(const Segment& segment) {
  DigestHasher hasher;
  const RoundChunk& bytes = segment.update_bytes;
  const absl::Status read =
      ReadInPieces(*segment.file, bytes.file_offset, bytes.bytes, [&hasher](Bytes piece) { hasher.Update(piece); });
  return read.ok() && hasher.Finish() == segment.update->digest;
}

}  // namespace atl::audit
