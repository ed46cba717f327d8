// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/segment_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/audit/file_bytes.h"

namespace atl::audit {
namespace {

// Record types.
constexpr uint32_t kHeader = 1, kBegin = 2, kChunk = 3, kAccepted = 4, kUpdate = 5, kAbandon = 6;
constexpr uint64_t kMessageLimit = uint64_t{16} << 20;  // of a protobuf message in a record

// Folds the records of a segment in order. A record without a valid meaning is damage, because its
// CRC was right.
class Folder {
 public:
  explicit Folder(Segment& segment) : segment_(segment) {}

  absl::Status Fold(const Record& record) {
    if ((record.type == kHeader) != (record.offset == 0)) return Wrong("a segment header must be the first record");
    switch (record.type) {
      case kHeader: return FoldHeader(record);
      case kBegin: return FoldBegin(record);
      case kChunk: return FoldChunk(record);
      case kAccepted: return FoldAccepted(record);
      case kUpdate: return FoldUpdate(record);
      case kAbandon: return FoldAbandon(record);
      default: return Wrong(absl::StrCat("record type ", record.type, " is unknown"));
    }
  }

  void Finish() {
    for (auto& [slot, contribution] : slots_) {
      const std::string worker = contribution.header.worker();
      if (contribution.accepted) segment_.accepted[worker] = std::move(contribution);
    }
    segment_.unaccepted = slots_.size() - segment_.accepted.size();
  }

 private:
  static absl::Status Wrong(const std::string& what) { return absl::DataLossError(what); }

  // The first `bytes` bytes of the payload.
  absl::StatusOr<std::string> Head(const Record& record, uint64_t bytes) const {
    if (record.payload_bytes < bytes) return Wrong("the record's payload is too short for its type");
    return ReadText(*segment_.file, record.payload_offset, bytes);
  }

  template <typename Message>
  absl::Status Parse(const Record& record, uint64_t skip, uint64_t bytes, Message& out) const {
    if (bytes > kMessageLimit || skip > record.payload_bytes || bytes > record.payload_bytes - skip)
      return Wrong("a message in the record is longer than can be");
    ATOLL_ASSIGN_OR_RETURN(const std::string text, ReadText(*segment_.file, record.payload_offset + skip, bytes));
    if (!out.ParseFromString(text)) return Wrong("a message in the record cannot be read");
    return absl::OkStatus();
  }

  absl::Status FoldHeader(const Record& record) {
    ATOLL_RETURN_IF_ERROR(Parse(record, 0, record.payload_bytes, segment_.header));
    if (segment_.header.format_revision() <= kSegmentRevisionKnown) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("format revision ", segment_.header.format_revision(),
                                                      " is newer than ", kSegmentRevisionKnown,
                                                      ", which this program knows"));
  }

  absl::Status FoldBegin(const Record& record) {
    ATOLL_ASSIGN_OR_RETURN(const std::string head, Head(record, 4));
    const uint32_t slot = static_cast<uint32_t>(Little(head, 0, 4));
    v1::ContributionBegin begin;
    ATOLL_RETURN_IF_ERROR(Parse(record, 4, record.payload_bytes - 4, begin));
    std::erase_if(slots_, [&](const auto& entry) {
      return entry.first != slot && !entry.second.accepted && entry.second.header.worker() == begin.header().worker();
    });
    SegmentContribution& contribution = slots_[slot];
    if (contribution.accepted) return Wrong("an accepted contribution is begun again");
    contribution.header = begin.header();
    contribution.record_offset = record.offset;
    return absl::OkStatus();
  }

  absl::Status FoldChunk(const Record& record) {
    ATOLL_ASSIGN_OR_RETURN(const std::string head, Head(record, 12));
    const auto slot = slots_.find(static_cast<uint32_t>(Little(head, 0, 4)));
    if (slot == slots_.end()) return absl::OkStatus();  // replaced or abandoned
    SegmentContribution& contribution = slot->second;
    const uint64_t bytes = record.payload_bytes - 12;
    if (Little(head, 4, 8) != contribution.bytes) return Wrong("a chunk does not go on where the one before ended");
    if (contribution.accepted || bytes > contribution.header.encoded_bytes() - contribution.bytes)
      return Wrong("a chunk goes beyond its contribution");
    contribution.pieces.push_back({record.payload_offset + 12, bytes});
    contribution.bytes += bytes;
    return absl::OkStatus();
  }

  absl::Status FoldAccepted(const Record& record) {
    ATOLL_ASSIGN_OR_RETURN(const std::string head, Head(record, 4));
    const auto slot = slots_.find(static_cast<uint32_t>(Little(head, 0, 4)));
    v1::ContributionAccepted accepted;
    ATOLL_RETURN_IF_ERROR(Parse(record, 4, record.payload_bytes - 4, accepted));
    if (slot == slots_.end()) return Wrong("a contribution is accepted that was never begun");
    SegmentContribution& contribution = slot->second;
    if (contribution.accepted) return Wrong("a contribution is accepted twice");
    if (contribution.bytes != accepted.header().encoded_bytes())
      return Wrong("a contribution is accepted that is not whole");
    contribution.header = accepted.header();
    contribution.accepted = true;
    contribution.record_offset = record.offset;
    return absl::OkStatus();
  }

  absl::Status FoldUpdate(const Record& record) {
    ATOLL_ASSIGN_OR_RETURN(const std::string head, Head(record, 4));
    const uint64_t message = Little(head, 0, 4);
    SegmentUpdate update;
    ATOLL_RETURN_IF_ERROR(Parse(record, 4, message, update.record));
    update.bytes = {record.payload_offset + 4 + message, record.payload_bytes - 4 - message};
    update.record_offset = record.offset;
    if (update.bytes.bytes != update.record.encoded_bytes()) return Wrong("the update has another size than it says");
    segment_.update = std::move(update);
    return absl::OkStatus();
  }

  absl::Status FoldAbandon(const Record& record) {
    ATOLL_ASSIGN_OR_RETURN(const std::string head, Head(record, 4));
    const auto slot = slots_.find(static_cast<uint32_t>(Little(head, 0, 4)));
    if (slot == slots_.end()) return absl::OkStatus();
    if (slot->second.accepted) return Wrong("an accepted contribution is abandoned");
    slots_.erase(slot);
    return absl::OkStatus();
  }

  Segment& segment_;
  std::map<uint32_t, SegmentContribution> slots_;
};

// Opens and scans; reports broken records.
absl::Status Open(const Files& files, const std::string& path, Segment& segment) {
  segment.path = path;
  ATOLL_ASSIGN_OR_RETURN(segment.file, files.OpenForRead(path));
  ATOLL_ASSIGN_OR_RETURN(segment.scan, ScanRecords(*segment.file));
  return absl::OkStatus();
}

// False if nothing can be read.
bool ReportScan(const Segment& segment, const std::string& job, Report& report) {
  const Scan& scan = segment.scan;
  if (scan.damaged()) {
    report.Damage({segment.path, scan.valid_bytes, job,
                   absl::StrCat("damaged in the middle: ", scan.broken, ", and the record at offset ", *scan.proof,
                                " knows it to have been flushed"),
                   kRestoreFile});
    return false;
  }
  return true;
}

}  // namespace

void NoteTornTail(const Segment& segment, const std::string& job, bool open, Report& report) {
  const Scan& scan = segment.scan;
  if (!scan.torn()) return;
  report.Count("torn tails");
  report.Note({segment.path, scan.valid_bytes, job,
               absl::StrCat("a torn tail of ", scan.file_bytes - scan.valid_bytes, " bytes (", scan.broken,
                            "): never flushed, or damaged since, which nothing behind it would show"),
               open ? "the next start cuts it off; workers that are still there send again what was in it"
                    : "no contribution that the committed round counts is in it"});
}

std::optional<Segment> ReadSegment(const Files& files, const std::string& path, const std::string& job,
                                   Report& report) {
  Segment segment;
  const absl::Status opened = Open(files, path, segment);
  if (!opened.ok()) {
    report.Damage({path, std::nullopt, job, std::string(opened.message()), kRestoreFile});
    return std::nullopt;
  }
  if (!ReportScan(segment, job, report)) return std::nullopt;
  Folder folder(segment);
  for (const Record& record : segment.scan.records) {
    const absl::Status folded = folder.Fold(record);
    segment.last_boot = record.boot;
    if (folded.ok()) continue;
    const bool newer = absl::IsFailedPrecondition(folded);
    report.Damage({path, record.offset, job, std::string(folded.message()), newer ? kNewerProgram : kRestoreFile});
    return std::nullopt;
  }
  folder.Finish();
  return segment;
}

absl::StatusOr<std::vector<std::byte>> ReadExtents(const File& file, const std::vector<Extent>& extents) {
  uint64_t total = 0;
  for (const Extent& extent : extents) total += extent.bytes;
  std::vector<std::byte> out(total);
  uint64_t at = 0;
  for (const Extent& extent : extents) {
    ATOLL_RETURN_IF_ERROR(file.ReadAt(extent.offset, std::span(out).subspan(at, extent.bytes)));
    at += extent.bytes;
  }
  return out;
}

absl::StatusOr<Digest> DigestOfExtents(const File& file, const std::vector<Extent>& extents) {
  DigestHasher hasher;
  for (const Extent& extent : extents) {
    for (uint64_t at = 0; at < extent.bytes; at += kReadBytes) {
      ATOLL_ASSIGN_OR_RETURN(const std::string piece,
                             ReadText(file, extent.offset + at, std::min(kReadBytes, extent.bytes - at)));
      hasher.Update(AsBytes(piece));
    }
  }
  return hasher.Finish();
}

Digest FromProto(const v1::Digest& digest) { return {digest.high(), digest.low()}; }

}  // namespace atl::audit
