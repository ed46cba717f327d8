// SPDX-License-Identifier: Apache-2.0
// Conversion between durable records and bytes (proto/atoll/v1/record.proto), for the store. Parsing
// validates: bytes that cannot be parsed or contain impossible values are DataLoss; a checkpoint
// manifest of another format revision is FailedPrecondition. Pure functions, safe everywhere.
#ifndef ATOLL_COMMON_WIRE_RECORD_MESSAGES_H_
#define ATOLL_COMMON_WIRE_RECORD_MESSAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/plan/records.h"

namespace atl {

// First record of a round log segment.
struct SegmentHeader {
  uint32_t format_revision = 0;
  JobId job;
  uint64_t epoch = 0;
  FragmentVersion target;  // the version that the round starts from
  Digest layout;           // of the model layout
  BootNumber boot;         // boot that began the segment
};
// The acceptance of a contribution.
struct AcceptedRecord {
  ContributionHeader header;
  int64_t wall_nanos = 0;
  BootNumber boot;
};
// Description of an encoded update, stored before its bytes.
struct UpdateInfo {
  FragmentVersion reached;
  Digest hash;    // ContentHash of the fragment at `reached`
  Digest digest;  // XXH3-128 of the encoded update
  uint64_t encoded_bytes = 0;
  CodecKind codec = CodecKind::kFp32;
  uint32_t arithmetic_revision = kArithmeticRevision;
};
// Header of a snapshot file.
struct SnapshotHeader {
  uint32_t format_revision = 0;
  JobId job;
  uint64_t epoch = 0;
  FragmentVersion at;
  uint64_t elements = 0;  // of each of the three arrays
  Digest hash;            // ContentHash of the public copy
  Digest momentum_digest, residual_digest;
  Digest layout;
  BootNumber boot;  // boot that wrote the file
};

std::string SerializeSegmentHeader(const SegmentHeader& header);
absl::StatusOr<SegmentHeader> ParseSegmentHeader(const std::string& bytes);
std::string SerializeContributionBegin(const ContributionHeader& header);
absl::StatusOr<ContributionHeader> ParseContributionBegin(const std::string& bytes);
std::string SerializeAccepted(const AcceptedRecord& record);
absl::StatusOr<AcceptedRecord> ParseAccepted(const std::string& bytes);
std::string SerializeUpdateInfo(const UpdateInfo& info);
absl::StatusOr<UpdateInfo> ParseUpdateInfo(const std::string& bytes);
std::string SerializeSnapshotHeader(const SnapshotHeader& header);
absl::StatusOr<SnapshotHeader> ParseSnapshotHeader(const std::string& bytes);
// Job and epoch are columns of the ledger and not in the bytes: the caller passes them.
std::string SerializeRoundRecord(const RoundRecord& record);
absl::StatusOr<RoundRecord> ParseRoundRecord(const std::string& bytes, const JobId& job, uint64_t epoch);
struct CheckpointManifest {
  CheckpointRecord record;  // complete; kept_for_good is not stored
  uint64_t epoch = 0;       // epoch of the versions
  BootNumber boot;
};
std::string SerializeCheckpointManifest(const CheckpointManifest& manifest);
absl::StatusOr<CheckpointManifest> ParseCheckpointManifest(const std::string& bytes);
// An empty list gives empty bytes.
std::string SerializeTaskScores(const std::vector<TaskScore>& scores);
absl::StatusOr<std::vector<TaskScore>> ParseTaskScores(const std::string& bytes);
// The resolved spec of a job, with name and labels.
std::string SerializeJobSpec(const JobSpec& spec);
absl::StatusOr<JobSpec> ParseJobSpec(const std::string& bytes);

}  // namespace atl

#endif  // ATOLL_COMMON_WIRE_RECORD_MESSAGES_H_
