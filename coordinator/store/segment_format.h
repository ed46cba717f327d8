// SPDX-License-Identifier: Apache-2.0
// The records of a round log segment: their encoding, and the scan that finds the valid prefix of a
// file (docs/formats/round-log.md). Pure except that the scan reads the file.
#ifndef ATOLL_COORDINATOR_STORE_SEGMENT_FORMAT_H_
#define ATOLL_COORDINATOR_STORE_SEGMENT_FORMAT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/hash.h"
#include "common/base/status.h"

namespace atl {

// Values are part of the format; never renumber.
enum class RecordType : uint32_t {
  kSegmentHeader = 1,  // record.proto SegmentHeader
  kBegin = 2,          // u32 slot, then record.proto ContributionBegin
  kChunk = 3,          // u32 slot, u64 offset, then payload bytes
  kAccepted = 4,       // u32 slot, then record.proto ContributionAccepted
  kUpdate = 5,         // u32 length, record.proto UpdateRecord of that length, then the encoded update
  kAbandon = 6,        // u32 slot
};

constexpr uint32_t kRecordMagic = 0x524C5441;  // "ATLR"
constexpr size_t kRecordHeaderBytes = 56;
constexpr uint64_t kRecordPayloadBytes = uint64_t{1} << 43;  // an update of limits::kParameters in fp32, and its header

struct RecordHeader {
  RecordType type = RecordType::kSegmentHeader;
  uint64_t payload_bytes = 0;
  uint64_t sequence = 0;       // the first record has the segment's secret start, each next one 1 more
  uint64_t boot = 0;           // boot number of the writer; never decreases within a file
  uint64_t flushed_bytes = 0;  // length of the file known to be flushed when this record was written
  uint64_t previous = 0;       // ChainOf the previous record; 0 for the first
  uint32_t payload_crc32c = 0;
};

using RecordHeaderBytes = std::array<std::byte, kRecordHeaderBytes>;
RecordHeaderBytes EncodeRecordHeader(const RecordHeader& header);
// False if the magic or the header's own CRC is wrong, or a value is out of range.
bool DecodeRecordHeader(std::span<const std::byte, kRecordHeaderBytes> bytes, RecordHeader& out);
// The value of `previous` in the next record: the low half of the XXH3-128 of this header, which
// includes the CRC of the payload.
uint64_t ChainOf(const RecordHeaderBytes& bytes);

// Little-endian numbers at the start of payloads.
void PutU32(std::string& out, uint32_t value);
void PutU64(std::string& out, uint64_t value);
uint32_t GetU32(Bytes bytes);
uint64_t GetU64(Bytes bytes);

// A record found by the scan.
struct ScannedRecord {
  RecordHeader header;
  uint64_t payload_offset = 0;  // in the file
};
struct ScanResult {
  uint64_t valid_bytes = 0;  // everything before is intact
  uint64_t file_bytes = 0;
  uint64_t next_sequence = 0;
  uint64_t chain = 0;  // `previous` of the next record
  uint64_t last_boot = 0;
  std::string broken;             // why the record at valid_bytes is not intact; empty if none is broken
  std::optional<uint64_t> proof;  // offset of an intact record that was written after a flush of the broken one
  absl::Status refused;           // the visitor's error about the record at valid_bytes, which ended the scan
  bool damaged() const { return proof.has_value(); }
  bool torn() const { return !broken.empty() && !damaged(); }
};
// Visits the intact records of `file` in order, each with the first kScanHeadBytes of its payload. A broken record is
// damage if an intact record after it proves that it was flushed; otherwise it begins a torn tail. Only a record with a
// sequence number of this segment is such a proof: a sender of payloads cannot guess those (round-log.md). Returns read
// errors only.
constexpr uint64_t kScanHeadBytes = uint64_t{2} << 20;
// kUpdate visits only the segment's header and its updates. The payloads of other records are not
// read, so damage in them is not reported. kMessages also visits acceptances, and reads only the
// first 4 KiB of an update, which hold its message.
enum class ScanOf { kAll, kUpdate, kMessages };
using ScanVisitor = std::function<absl::Status(const ScannedRecord& record, Bytes head)>;
absl::StatusOr<ScanResult> ScanRecords(const File& file, const ScanVisitor& visitor, ScanOf of = ScanOf::kAll);
// Calls ScanRecords. Damage (DataLoss, with path and offset) and the visitor's error are errors; a torn tail is not.
absl::StatusOr<ScanResult> ScanSegment(const File& file, const std::string& path, const ScanVisitor& visitor,
                                       ScanOf of = ScanOf::kAll);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_SEGMENT_FORMAT_H_
