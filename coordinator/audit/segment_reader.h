// SPDX-License-Identifier: Apache-2.0
// The content of a round log segment, from docs/formats/round-log.md.
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

constexpr uint32_t kSegmentRevisionKnown = 1;

// A byte range of a file.
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
  uint64_t unaccepted = 0;                              // contributions still being uploaded
  std::optional<SegmentUpdate> update;
  uint64_t last_boot = 0;
};

// Reads everything except the payloads of contributions and updates. Nothing if the file is
// unusable: `report` then has the damage. The caller judges a torn tail, which may be damage of a
// committed round. A file with an unflushed header has no records.
std::optional<Segment> ReadSegment(const Files& files, const std::string& path, const std::string& job, Report& report);
// Notes the torn tail of a segment, if there is one without data of a committed round. `open`: the
// round is still open.
void NoteTornTail(const Segment& segment, const std::string& job, bool open, Report& report);

// The bytes of an accepted contribution or the update, at most the length in its header.
absl::StatusOr<std::vector<std::byte>> ReadExtents(const File& file, const std::vector<Extent>& extents);
// XXH3-128 of the bytes, read in pieces.
absl::StatusOr<Digest> DigestOfExtents(const File& file, const std::vector<Extent>& extents);

Digest FromProto(const v1::Digest& digest);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_SEGMENT_READER_H_
