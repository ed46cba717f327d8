// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/segment_scan.h"

#include <algorithm>

#include "common/base/hash.h"
#include "coordinator/audit/file_bytes.h"

namespace atl::audit {
namespace {

constexpr uint64_t kHeaderBytes = 56;
constexpr uint64_t kPayloadLimit = uint64_t{1} << 43;
constexpr char kMagic[] = "ATLR";
constexpr uint64_t kTypes = 6;

// The CRC of `bytes` bytes from `offset`, read in pieces.
absl::StatusOr<uint32_t> CrcOf(const File& file, uint64_t offset, uint64_t bytes) {
  uint32_t crc = 0;
  for (uint64_t at = 0; at < bytes; at += kReadBytes) {
    ATOLL_ASSIGN_OR_RETURN(const std::string piece, ReadText(file, offset + at, std::min(kReadBytes, bytes - at)));
    crc = Crc32c(crc, AsBytes(piece));
  }
  return crc;
}

// A self-consistent record: magic, both CRCs, payload inside the file.
struct Whole {
  Record record;
  uint64_t sequence = 0, flushed = 0, previous = 0, chain = 0;
};

struct Look {
  std::optional<Whole> whole;
  std::string broken;  // the reason if not whole
};

// Reads the payload only if the header is `wanted`.
template <typename Wanted>
absl::StatusOr<Look> LookAt(const File& file, uint64_t offset, uint64_t file_bytes, const Wanted& wanted) {
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
  if (whole.record.type < 1 || whole.record.type > kTypes) return Look{{}, "the record is of no type that there is"};
  if (whole.record.payload_bytes > kPayloadLimit) return Look{{}, "the record's payload is impossibly long"};
  if (whole.record.payload_bytes > file_bytes - whole.record.payload_offset) {
    return Look{{}, "the file ends within a record's payload"};
  }
  if (const std::string unwanted = wanted(whole); !unwanted.empty()) return Look{{}, unwanted};
  ATOLL_ASSIGN_OR_RETURN(const uint32_t crc, CrcOf(file, whole.record.payload_offset, whole.record.payload_bytes));
  if (crc != Little(header, 48, 4)) return Look{{}, "the record's payload does not have its CRC"};
  return Look{whole, ""};
}

// The first record after `from` that proves that more than `from` bytes had been flushed. Its
// sequence must belong to this file, which begins with sequence `first`, if known.
absl::StatusOr<std::optional<uint64_t>> FindProof(const File& file, uint64_t from, uint64_t file_bytes,
                                                  std::optional<uint64_t> first) {
  const auto knows = [&](const Whole& whole) -> std::string {
    if (whole.flushed <= from) return "it does not know of it";
    if (first && whole.sequence - *first > file_bytes / kHeaderBytes) return "it is no record of this file";
    return "";
  };
  for (uint64_t at = from; at < file_bytes; at += kReadBytes) {
    const uint64_t with_overlap = std::min(kReadBytes + 3, file_bytes - at);
    ATOLL_ASSIGN_OR_RETURN(const std::string piece, ReadText(file, at, with_overlap));
    for (size_t hit = piece.find(kMagic); hit != std::string::npos; hit = piece.find(kMagic, hit + 1)) {
      if (at + hit == from) continue;
      ATOLL_ASSIGN_OR_RETURN(const Look look, LookAt(file, at + hit, file_bytes, knows));
      if (look.whole) return std::optional<uint64_t>(at + hit);
    }
  }
  return std::optional<uint64_t>();
}

}  // namespace

absl::StatusOr<Scan> ScanRecords(const File& file) {
  Scan scan;
  ATOLL_ASSIGN_OR_RETURN(scan.file_bytes, file.Size());
  std::optional<uint64_t> first, sequence;  // of the first record; of the next one
  uint64_t chain = 0, boot = 0;
  const auto follows = [&](const Whole& whole) -> std::string {
    if (sequence && whole.sequence != *sequence) return "the record is not the next one of this file";
    if (whole.previous != chain) return "the record does not follow the one before";
    if (whole.record.boot < boot) return "the boot number falls";
    if (whole.flushed > scan.valid_bytes) return "the record knows bytes to be flushed that are not before it";
    return "";
  };
  while (scan.valid_bytes < scan.file_bytes && scan.broken.empty()) {
    ATOLL_ASSIGN_OR_RETURN(const Look look, LookAt(file, scan.valid_bytes, scan.file_bytes, follows));
    scan.broken = look.broken;
    if (!scan.broken.empty()) break;
    if (!first) first = look.whole->sequence;
    sequence = look.whole->sequence + 1;
    chain = look.whole->chain;
    boot = look.whole->record.boot;
    scan.valid_bytes = look.whole->record.payload_offset + look.whole->record.payload_bytes;
    scan.records.push_back(look.whole->record);
  }
  if (!scan.broken.empty()) {
    ATOLL_ASSIGN_OR_RETURN(scan.proof, FindProof(file, scan.valid_bytes, scan.file_bytes, first));
  }
  return scan;
}

}  // namespace atl::audit
