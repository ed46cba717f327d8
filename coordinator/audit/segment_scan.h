// SPDX-License-Identifier: Apache-2.0
// Scans the records of a round log segment, from docs/formats/round-log.md: separates valid bytes,
// a torn tail, and damage.
#ifndef ATOLL_COORDINATOR_AUDIT_SEGMENT_SCAN_H_
#define ATOLL_COORDINATOR_AUDIT_SEGMENT_SCAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"

namespace atl::audit {

struct Record {
  uint64_t offset = 0;  // of its header in the file
  uint32_t type = 0;
  uint64_t payload_offset = 0, payload_bytes = 0;
  uint64_t boot = 0;
};

struct Scan {
  std::vector<Record> records;  // of the valid prefix
  uint64_t valid_bytes = 0, file_bytes = 0;
  std::string broken;             // why the prefix ends; empty if it is the whole file
  std::optional<uint64_t> proof;  // offset of a record that proves that the end of the prefix had been flushed
  bool damaged() const { return proof.has_value(); }
  bool torn() const { return !broken.empty() && !damaged(); }
};

// Reads the whole file once, and the part after a broken record a second time. Returns read errors.
absl::StatusOr<Scan> ScanRecords(const File& file);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_SEGMENT_SCAN_H_
