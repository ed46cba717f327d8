#include "coordinator/audit/segment_scan.h"

#include <algorithm>

#include "common/base/hash.h"
#include "coordinator/audit/file_bytes.h"

namespace atl::audit {
namespace {

constexpr uint64_t kHeaderBytes = 56;
constexpr uint64_t kPayloadLimit = uint64_t{1} << 43;
constexpr char kMagic[] = "ATLR";

// The CRC of `bytes` bytes from `offset`, read in pieces.
absl::StatusOr<uint32_t> CrcOf(const File& file, uint64_t offset, uint64_t bytes) {
  uint32_t crc = 0;
  for (uint64_t at = 0; at < bytes; at += kReadBytes) {
    ATOLL_ASSIGN_OR_RETURN(const std::string piece, ReadText(file, offset + at, std::min(kReadBytes, bytes - at)));
    crc = Crc32c(crc, AsBytes(piece));
  }
  return crc;
}

// A record that is whole by itself: magic, both CRCs, payload within the file.
struct Whole {
  Record record;
  uint64_t sequence = 0, flushed = 0, previous = 0, chain = 0;
};

struct Look {
  std::optional<Whole> whole;
  std::string broken;  // why not
};

absl::StatusOr<Look> LookAt(const File& file, uint64_t offset, uint64_t file_bytes) {
  if (file_bytes - offset < kHeaderBytes) return Look{{}, "the file ends within a record's header"};
  ATOLL_ASSIGN_OR_RETURN(const std::string header, ReadText(file, offset, kHeaderBytes));
  if (header.compare(0, 4, kMagic) != 0) return Look{{}, "no record begins here"};
  if (Crc32c(0, AsBytes(header.substr(0, 52))) != Little(header, 52, 4)) {
    return Look{{}, "the record's header does not have its CRC"};
  }
  Whole whole;
  whole.record.offset = offset;
  whole.record.type = static_cast<uint32_t>(Little(header, 4, 4));
  whole.record.payload_bytes = Little(header, 8, 8);
  whole.record.payload_offset = offset + kHeaderBytes;
  whole.record.boot = Little(header, 24, 8);
  whole.sequence = Little(header, 16, 8);
  whole.flushed = Little(header, 32, 8);
  whole.previous = Little(header, 40, 8);
  whole.chain = DigestOf(AsBytes(header)).low;
  if (whole.record.payload_bytes > kPayloadLimit) return Look{{}, "the record's payload is impossibly long"};
  if (whole.record.payload_bytes > file_bytes - whole.record.payload_offset) {
    return Look{{}, "the file ends within a record's payload"};
  }
  ATOLL_ASSIGN_OR_RETURN(const uint32_t crc, CrcOf(file, whole.record.payload_offset, whole.record.payload_bytes));
  if (crc != Little(header, 48, 4)) return Look{{}, "the record's payload does not have its CRC"};
  return Look{whole, ""};
}

// The first record anywhere beyond `from` that knows more than `from` bytes to have been flushed.
absl::StatusOr<std::optional<uint64_t>> FindProof(const File& file, uint64_t from, uint64_t file_bytes) {
  for (uint64_t at = from; at < file_bytes; at += kReadBytes) {
    const uint64_t with_overlap = std::min(kReadBytes + 3, file_bytes - at);
    ATOLL_ASSIGN_OR_RETURN(const std::string piece, ReadText(file, at, with_overlap));
    for (size_t hit = piece.find(kMagic); hit != std::string::npos; hit = piece.find(kMagic, hit + 1)) {
      if (at + hit == from) continue;
      ATOLL_ASSIGN_OR_RETURN(const Look look, LookAt(file, at + hit, file_bytes));
      if (look.whole && look.whole->flushed > from) return std::optional<uint64_t>(at + hit);
    }
  }
  return std::optional<uint64_t>();
}

}  // namespace

absl::StatusOr<Scan> ScanRecords(const File& file) {
  Scan scan;
  ATOLL_ASSIGN_OR_RETURN(scan.file_bytes, file.Size());
  uint64_t sequence = 0, chain = 0, boot = 0;
  while (scan.valid_bytes < scan.file_bytes && scan.broken.empty()) {
    ATOLL_ASSIGN_OR_RETURN(const Look look, LookAt(file, scan.valid_bytes, scan.file_bytes));
    scan.broken = look.broken;
    if (look.whole && look.whole->sequence != sequence) scan.broken = "the record is not the next one of this file";
    if (look.whole && look.whole->previous != chain) scan.broken = "the record does not follow the one before";
    if (look.whole && look.whole->record.boot < boot) scan.broken = "the boot number falls";
    if (!scan.broken.empty()) break;
    ++sequence;
    chain = look.whole->chain;
    boot = look.whole->record.boot;
    scan.valid_bytes = look.whole->record.payload_offset + look.whole->record.payload_bytes;
    scan.records.push_back(look.whole->record);
  }
  if (!scan.broken.empty()) {
    ATOLL_ASSIGN_OR_RETURN(scan.proof, FindProof(file, scan.valid_bytes, scan.file_bytes));
  }
  return scan;
}

}  // namespace atl::audit
