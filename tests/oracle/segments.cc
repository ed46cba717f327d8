// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "common/base/hash.h"
#include "tests/oracle/oracle.h"

namespace atl::oracle {
namespace {

constexpr uint64_t kHeaderBytes = 56;

struct Record {
  uint64_t payload_bytes = 0, sequence = 0, boot = 0, flushed = 0, previous = 0, chain = 0;
};

uint64_t Number(const std::string& file, uint64_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(file[at + i]);
  return value;
}

std::optional<Record> ReadRecord(const std::string& file, uint64_t at) {
  if (file.size() - at < kHeaderBytes || file.compare(at, 4, "ATLR") != 0) return std::nullopt;
  const uint64_t type = Number(file, at + 4, 4);
  const Record record{.payload_bytes = Number(file, at + 8, 8),
                      .sequence = Number(file, at + 16, 8),
                      .boot = Number(file, at + 24, 8),
                      .flushed = Number(file, at + 32, 8),
                      .previous = Number(file, at + 40, 8),
                      .chain = DigestOf(AsBytes(file.substr(at, kHeaderBytes))).low};
  const bool header_whole = Crc32c(0, AsBytes(file.substr(at, 52))) == Number(file, at + 52, 4);
  if (!header_whole || type < 1 || type > 6 || record.payload_bytes > file.size() - at - kHeaderBytes)
    return std::nullopt;
  const std::string payload = file.substr(at + kHeaderBytes, record.payload_bytes);
  if (Crc32c(0, AsBytes(payload)) != Number(file, at + 48, 4)) return std::nullopt;
  return record;
}

}  // namespace

Scan ScanSegment(const std::string& file) {
  Scan scan;
  std::optional<uint64_t> first;
  Record last;
  while (scan.valid_bytes < file.size()) {
    const std::optional<Record> record = ReadRecord(file, scan.valid_bytes);
    const bool follows = record && (!first || record->sequence == last.sequence + 1) &&
                         record->previous == last.chain && record->boot >= last.boot &&
                         record->flushed <= scan.valid_bytes;
    if (!follows) break;
    if (!first) first = record->sequence;
    last = *record;
    scan.valid_bytes += kHeaderBytes + record->payload_bytes;
    ++scan.records;
  }
  for (uint64_t at = scan.valid_bytes + 1; at < file.size(); ++at) {
    const std::optional<Record> record = ReadRecord(file, at);
    scan.damaged = scan.damaged || (record && record->flushed > scan.valid_bytes &&
                                    (!first || record->sequence - *first <= file.size() / kHeaderBytes));
  }
  scan.torn = scan.valid_bytes < file.size() && !scan.damaged;
  return scan;
}

}  // namespace atl::oracle
