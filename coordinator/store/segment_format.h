// SPDX-License-Identifier: Apache-2.0
// The records of a round log segment: their bytes, and the scan that finds the valid prefix of a file. The layout is in
// docs/formats/round-log.md. Pure besides reading the file; used by round_log.cc and tests.
#ifndef ATOLL_COORDINATOR_STORE_SEGMENT_FORMAT_H_
#define ATOLL_COORDINATOR_STORE_SEGMENT_FORMAT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
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
constexpr uint64_t kRecordPayloadBytes = uint64_t{1} << 43;  // an update of limits::kParameters in fp32 and its header

struct RecordHeader {
  RecordType type = RecordType::kSegmentHeader;
  uint64_t payload_bytes = 0;
  uint64_t sequence = 0;       // of the first record: the segment's secret start; then by one
  uint64_t boot = 0;           // boot number of the writer; never falls within a file
  uint64_t flushed_bytes = 0;  // length of the file that was flushed before this record was written
  uint64_t previous = 0;       // ChainOf the record before, 0 for the first
  uint32_t payload_crc32c = 0;
};

using RecordHeaderBytes = std::array<std::byte, kRecordHeaderBytes>;
RecordHeaderBytes EncodeRecordHeader(const RecordHeader& header);
// False when magic or the header's own CRC is wrong, or a value is impossible.
bool DecodeRecordHeader(std::span<const std::byte, kRecordHeaderBytes> bytes, RecordHeader& out);
// What the next record's `previous` must be: the low half of the XXH3-128 of these bytes, which cover the payload by
// its CRC.
uint64_t ChainOf(const RecordHeaderBytes& bytes);

// Little-endian numbers at the head of payloads.
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
  uint64_t next_sequence = 0;
  uint64_t chain = 0;  // `previous` of the next record
  uint64_t last_boot = 0;
  bool torn = false;  // bytes beyond valid_bytes are a torn tail
};
// Visits the intact records of `file` in order, each with the first kScanHeadBytes of its payload. An error of the
// visitor ends the scan. DataLoss, naming path and offset, when the first broken record lies below a length that an
// intact record further on knows to be flushed: damage in the middle. Otherwise what is broken is a torn tail. What
// counts as a record there has a sequence of this segment, which nobody who sends payloads can guess (round-log.md).
constexpr uint64_t kScanHeadBytes = uint64_t{2} << 20;
// kUpdate: the segment's header and updates alone are visited. Of all other records the headers are read, and no
// payload, which may be broken without a word.
enum class ScanOf { kAll, kUpdate };
using ScanVisitor = std::function<absl::Status(const ScannedRecord& record, Bytes head)>;
absl::StatusOr<ScanResult> ScanSegment(const File& file, const std::string& path, const ScanVisitor& visitor,
                                       ScanOf of = ScanOf::kAll);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_SEGMENT_FORMAT_H_
