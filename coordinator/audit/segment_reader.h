// SPDX-License-Identifier: Apache-2.0
// A segment of the round log as its round sees it, from docs/formats/round-log.md.
#ifndef ATOLL_COORDINATOR_AUDIT_SEGMENT_READER_H_
#define ATOLL_COORDINATOR_AUDIT_SEGMENT_READER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "atoll/v1/record.pb.h"
#include "common/base/files.h"
#include "common/base/hash.h"
#include "coordinator/audit/findings.h"
#include "coordinator/audit/segment_scan.h"

namespace atl::audit {

constexpr uint32_t kSegmentRevisionKnown = 2;

// Bytes of a file.
struct Extent {
  uint64_t offset = 0, bytes = 0;
};

struct SegmentContribution {
  v1::ContributionHeader header;
  std::vector<Extent> pieces;  // in order
  uint64_t bytes = 0;          // of all pieces
  bool accepted = false;
  uint64_t record_offset = 0;  // of its acceptance, or of its newest begin
};

struct SegmentUpdate {
  v1::UpdateRecord record;
  Extent bytes;
  uint64_t record_offset = 0;
};

struct Segment {
  std::string path;
  std::unique_ptr<File> file;
  Scan scan;
  v1::SegmentHeader header;
  std::map<std::string, SegmentContribution> accepted;  // by worker
  uint64_t unaccepted = 0;                              // contributions on their way
  std::optional<SegmentUpdate> update;
  uint64_t last_boot = 0;
};

// Reads everything but the payloads of contributions and updates. Nothing when the file cannot be used: `report` then
// has the damage. A torn tail is left to the caller: it may be damage of a committed round. A file whose header was
// never flushed has no records.
std::optional<Segment> ReadSegment(const Files& files, const std::string& path, const std::string& job, Report& report);
// Notes the torn tail of a segment, where there is one that nothing of a committed round is in; `open`: the round is.
void NoteTornTail(const Segment& segment, const std::string& job, bool open, Report& report);

// The bytes of an accepted contribution or the update, at most as long as its header says.
absl::StatusOr<std::vector<std::byte>> ReadExtents(const File& file, const std::vector<Extent>& extents);
// XXH3-128 over them, read in pieces.
absl::StatusOr<Digest> DigestOfExtents(const File& file, const std::vector<Extent>& extents);

Digest FromProto(const v1::Digest& digest);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_SEGMENT_READER_H_
