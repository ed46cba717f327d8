// SPDX-License-Identifier: Apache-2.0
// Snapshots and checkpoint manifests, read and checked as coordinator/store reads them, for findings.
#ifndef ATOLL_COORDINATOR_AUDIT_SNAPSHOT_READER_H_
#define ATOLL_COORDINATOR_AUDIT_SNAPSHOT_READER_H_

#include <optional>
#include <string>

#include "common/base/files.h"
#include "coordinator/audit/findings.h"
#include "coordinator/store/snapshot_file.h"

namespace atl::audit {

// The header of a snapshot if every byte conforms to the format; otherwise nothing, and `report`
// has the damage. With `loaded`, also reads the arrays.
std::optional<SnapshotHeader> ReadSnapshot(const Files& files, const std::string& path, const std::string& job,
                                           Report& report, LoadedSnapshot* loaded = nullptr);

// The manifest; nothing if it is missing or damaged, and `report` then has the damage.
std::optional<CheckpointManifest> ReadManifest(const Files& files, const std::string& path, const std::string& job,
                                               Report& report);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_SNAPSHOT_READER_H_
