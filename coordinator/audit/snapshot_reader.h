// SPDX-License-Identifier: Apache-2.0
// Snapshots and checkpoint manifests, from docs/formats/snapshot.md.
#ifndef ATOLL_COORDINATOR_AUDIT_SNAPSHOT_READER_H_
#define ATOLL_COORDINATOR_AUDIT_SNAPSHOT_READER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "atoll/v1/record.pb.h"
#include "common/base/files.h"
#include "common/base/hash.h"
#include "coordinator/audit/findings.h"

namespace atl::audit {

// A fragment with its outer state at a version. The three arrays have the same length.
struct FragmentState {
  uint64_t version = 0;
  std::vector<float> public_copy, momentum, residual;
};

// The content hash of a fragment at a version.
Digest HashOfFragment(std::span<const float> public_copy, uint64_t version, const Digest& layout);

// The header of a snapshot if every byte conforms to the format; otherwise nothing, and `report`
// has the damage. With `state`, also reads the arrays.
std::optional<v1::SnapshotHeader> ReadSnapshot(const Files& files, const std::string& path, const std::string& job,
                                               Report& report, FragmentState* state = nullptr);

// Nothing if it is missing or unreadable: `report` then has the damage.
std::optional<v1::CheckpointManifest> ReadManifest(const Files& files, const std::string& path, const std::string& job,
                                                   Report& report);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_SNAPSHOT_READER_H_
