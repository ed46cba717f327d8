// SPDX-License-Identifier: Apache-2.0
// Reads one snapshot file, wherever it lies.
#ifndef ATOLL_COORDINATOR_STORE_SNAPSHOT_FILE_H_
#define ATOLL_COORDINATOR_STORE_SNAPSHOT_FILE_H_

#include <cstdint>
#include <optional>

#include "coordinator/store/snapshot_store.h"

namespace atl {

// Reads and checks every byte of a snapshot file; stores the arrays in `loaded`, if given, else needs 256
// KiB of memory. DataLoss: damaged; the message lacks the path. FailedPrecondition: a newer revision.
absl::StatusOr<SnapshotHeader> ReadSnapshot(const File& file, LoadedSnapshot* loaded = nullptr);
// The offset of the damage in the file, from an error of ReadSnapshot, if known.
std::optional<uint64_t> DamageOffset(const absl::Status& status);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_SNAPSHOT_FILE_H_
