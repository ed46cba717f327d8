// SPDX-License-Identifier: Apache-2.0
// The contents of a round log segment, read and checked as coordinator/store reads them, for findings.
#ifndef ATOLL_COORDINATOR_AUDIT_SEGMENT_READER_H_
#define ATOLL_COORDINATOR_AUDIT_SEGMENT_READER_H_

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "coordinator/audit/findings.h"
#include "coordinator/store/round_segment.h"

namespace atl::audit {

struct Segment {
  std::string path;
  std::shared_ptr<const File> file;
  ScanResult scan;                                 // not damaged; without valid bytes there is no header
  SegmentHeader header;                            // of a known revision
  std::map<WorkerId, RoundContribution> accepted;  // the bytes of each have its digest
  std::optional<UpdateInfo> update;                // its digest is not checked
  RoundChunk update_bytes;
};

// Reads every byte. Nothing if the file is unusable: `report` then has the damage. The caller judges a torn tail, which
// may be damage of a committed round. A file with an unflushed header is empty.
std::optional<Segment> ReadSegment(const Files& files, const std::string& path, const std::string& job, Report& report);
// Adds a note about a torn tail of the segment, if it has one. Do not call it if the tail held data of a committed
// round, which is damage. `open`: the round is still open.
void NoteTornTail(const Segment& segment, const std::string& job, bool open, Report& report);

// The bytes of `chunks`, concatenated: an accepted contribution, or the update, of a segment.
absl::StatusOr<std::vector<std::byte>> ReadChunks(const File& file, const std::vector<RoundChunk>& chunks);
// Whether the bytes of the segment's update have the digest in its record. Requires an update.
bool UpdateHasDigest(const Segment& segment);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_SEGMENT_READER_H_
