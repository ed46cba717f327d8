// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/segment_format.h"

#include <algorithm>
#include <optional>

namespace atl {
namespace {

void Put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}
uint64_t Get(Bytes bytes, int count) {
  uint64_t value = 0;
  for (int i = 0; i < count; ++i) value |= static_cast<uint64_t>(bytes[static_cast<size_t>(i)]) << (8 * i);
  return value;
}

constexpr uint64_t kMessageHeadBytes = 4096;

bool IsVisited(RecordType type, ScanOf of) {
  return of == ScanOf::kAll || type == RecordType::kSegmentHeader || type == RecordType::kUpdate ||
         (of == ScanOf::kMessages && type == RecordType::kAccepted);
}

// Reads a payload, whose first kScanHeadBytes stay in `head`, and gives its CRC.
absl::StatusOr<uint32_t> ReadPayload(const File& file, const ScannedRecord& record, std::vector<std::byte>& head) {
  uint32_t crc = 0;
  std::vector<std::byte> piece;
  for (uint64_t at = 0; at < record.header.payload_bytes || at == 0;) {
    const uint64_t size = std::min<uint64_t>(kScanHeadBytes, record.header.payload_bytes - at);
    std::vector<std::byte>& target = at == 0 ? head : piece;
    target.resize(size);
    ATOLL_RETURN_IF_ERROR(file.ReadAt(record.payload_offset + at, target));
    crc = Crc32c(crc, target);
    at += size;
    if (size == 0) break;
  }
  return crc;
}

// Reads one record at `offset`, and checks its payload if it is visited. Nothing, with the reason in `broken`, if it is
// broken, longer than the file, or its header is not `wanted`; an error if the disk cannot be read.
template <typename Wanted>
absl::StatusOr<std::optional<ScannedRecord>> ReadRecord(const File& file, uint64_t offset, uint64_t file_bytes,
                                                        const Wanted& wanted, RecordHeaderBytes& raw,
                                                        std::vector<std::byte>& head, std::string& broken,
                                                        ScanOf of = ScanOf::kAll) {
  const auto because = [&broken](const char* reason) {
    broken = reason;
    return std::optional<ScannedRecord>();
  };
  if (offset > file_bytes || file_bytes - offset < kRecordHeaderBytes)
    return because("the file ends within a record's header");
  ATOLL_RETURN_IF_ERROR(file.ReadAt(offset, raw));
  ScannedRecord record;
  if (!DecodeRecordHeader(raw, record.header)) return because("no whole header of a record begins here");
  if (!wanted(record.header)) return because("the record does not follow the one before");
  record.payload_offset = offset + kRecordHeaderBytes;
  if (record.header.payload_bytes > file_bytes - record.payload_offset)
    return because("the file ends within a record's payload");
  if (!IsVisited(record.header.type, of)) return record;
  if (of == ScanOf::kMessages && record.header.type == RecordType::kUpdate) {
    head.resize(std::min(kMessageHeadBytes, record.header.payload_bytes));
    ATOLL_RETURN_IF_ERROR(file.ReadAt(record.payload_offset, head));
    return record;
  }
  ATOLL_ASSIGN_OR_RETURN(const uint32_t crc, ReadPayload(file, record, head));
  if (crc != record.header.payload_crc32c) return because("the record's payload does not have its CRC");
  return record;
}

// The first intact record after `offset` that was written after a flush of more than `offset` bytes. `first`: the
// sequence of the file's first record, if that is whole. A payload may look like such a record, but its sender does not
// know `first`. Without it no payload was written yet: the first record is flushed before any other.
absl::StatusOr<std::optional<uint64_t>> FindProof(const File& file, uint64_t offset, uint64_t file_bytes,
                                                  std::optional<uint64_t> first) {
  const auto knows = [&](const RecordHeader& header) {
    return header.flushed_bytes > offset && (!first || header.sequence - *first <= file_bytes / kRecordHeaderBytes);
  };
  constexpr uint64_t kWindow = uint64_t{1} << 20;
  std::vector<std::byte> window, head;
  RecordHeaderBytes raw;
  std::string ignored;
  for (uint64_t at = offset + 1; at + kRecordHeaderBytes <= file_bytes; at += kWindow) {
    // Windows overlap by one byte less than a header, so that no header is missed at a border.
    window.resize(std::min<uint64_t>(kWindow + kRecordHeaderBytes - 1, file_bytes - at));
    ATOLL_RETURN_IF_ERROR(file.ReadAt(at, window));
    for (size_t i = 0; i + kRecordHeaderBytes <= window.size(); ++i) {
      if (static_cast<uint64_t>(window[i]) != (kRecordMagic & 0xff) || GetU32(Bytes(window).subspan(i)) != kRecordMagic)
        continue;
      ATOLL_ASSIGN_OR_RETURN(const auto record, ReadRecord(file, at + i, file_bytes, knows, raw, head, ignored));
      if (record) return std::optional<uint64_t>(at + i);
    }
  }
  return std::nullopt;
}

bool Follows(const RecordHeader& header, const ScanResult& so_far) {
  const bool first = so_far.valid_bytes == 0;
  return (first || header.sequence == so_far.next_sequence) && header.previous == so_far.chain &&
         header.boot >= so_far.last_boot && header.flushed_bytes <= so_far.valid_bytes;
}

}  // namespace

void PutU32(std::string& out, uint32_t value) { Put(out, value, 4); }
void PutU64(std::string& out, uint64_t value) { Put(out, value, 8); }
uint32_t GetU32(Bytes bytes) { return static_cast<uint32_t>(Get(bytes, 4)); }
uint64_t GetU64(Bytes bytes) { return Get(bytes, 8); }

RecordHeaderBytes EncodeRecordHeader(const RecordHeader& header) {
  RecordHeaderBytes bytes;
  size_t at = 0;
  const auto put = [&bytes, &at](uint64_t value, size_t count) {
    for (size_t i = 0; i < count; ++i) bytes[at++] = static_cast<std::byte>(value >> (8 * i));
  };
  put(kRecordMagic, 4);
  put(static_cast<uint32_t>(header.type), 4);
  for (const uint64_t value :
       {header.payload_bytes, header.sequence, header.boot, header.flushed_bytes, header.previous})
    put(value, 8);
  put(header.payload_crc32c, 4);
  put(Crc32c(0, Bytes(bytes).first(at)), 4);
  return bytes;
}

bool DecodeRecordHeader(std::span<const std::byte, kRecordHeaderBytes> bytes, RecordHeader& out) {
  const Bytes all(bytes);
  if (GetU32(all) != kRecordMagic) return false;
  if (GetU32(all.subspan(52)) != Crc32c(0, all.first(52))) return false;
  const uint32_t type = GetU32(all.subspan(4));
  if (type < static_cast<uint32_t>(RecordType::kSegmentHeader) || type > static_cast<uint32_t>(RecordType::kAbandon))
    return false;
  out.type = static_cast<RecordType>(type);
  out.payload_bytes = GetU64(all.subspan(8));
  out.sequence = GetU64(all.subspan(16));
  out.boot = GetU64(all.subspan(24));
  out.flushed_bytes = GetU64(all.subspan(32));
  out.previous = GetU64(all.subspan(40));
  out.payload_crc32c = GetU32(all.subspan(48));
  return out.payload_bytes <= kRecordPayloadBytes;
}

uint64_t ChainOf(const RecordHeaderBytes& bytes) { return DigestOf(bytes).low; }

absl::StatusOr<ScanResult> ScanRecords(const File& file, const ScanVisitor& visitor, ScanOf of) {
  ScanResult result;
  ATOLL_ASSIGN_OR_RETURN(result.file_bytes, file.Size());
  RecordHeaderBytes raw;
  std::vector<std::byte> head;
  std::optional<uint64_t> first;
  const auto follows = [&result](const RecordHeader& header) { return Follows(header, result); };
  while (result.valid_bytes < result.file_bytes) {
    ATOLL_ASSIGN_OR_RETURN(const auto record, ReadRecord(file, result.valid_bytes, result.file_bytes, follows, raw,
                                                         head, result.broken, of));
    if (!record) break;
    if (!first) first = record->header.sequence;
    if (IsVisited(record->header.type, of)) result.refused = visitor(*record, head);
    if (!result.refused.ok()) return result;
    result.valid_bytes = record->payload_offset + record->header.payload_bytes;
    result.next_sequence = record->header.sequence + 1;
    result.chain = ChainOf(raw);
    result.last_boot = record->header.boot;
  }
  if (!result.broken.empty()) {
    ATOLL_ASSIGN_OR_RETURN(result.proof, FindProof(file, result.valid_bytes, result.file_bytes, first));
  }
  return result;
}

absl::StatusOr<ScanResult> ScanSegment(const File& file, const std::string& path, const ScanVisitor& visitor,
                                       ScanOf of) {
  ATOLL_ASSIGN_OR_RETURN(ScanResult result, ScanRecords(file, visitor, of));
  ATOLL_RETURN_IF_ERROR(result.refused);
  if (result.damaged()) {
    return absl::DataLossError(
        absl::StrCat("round log segment ", path, " is damaged at offset ", result.valid_bytes,
                     ", in what was durable before: restore the file from a copy, or roll the job back "
                     "to a checkpoint"));
  }
  return result;
}

}  // namespace atl
