// SPDX-License-Identifier: Apache-2.0
// The snapshots of fragments on disk.
#ifndef ATOLL_COORDINATOR_STORE_SNAPSHOTS_ON_DISK_H_
#define ATOLL_COORDINATOR_STORE_SNAPSHOTS_ON_DISK_H_

#include <cstdint>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/plan/records.h"
#include "coordinator/store/data_directory.h"

namespace atl {

// Versions with a snapshot, ascending, without incomplete files. Empty if the directory does not
// exist.
absl::StatusOr<std::vector<Version>> SnapshotsOnDisk(const Files& files, const DataDirectory& directory,
                                                     const JobId& job, uint64_t epoch, FragmentIndex fragment);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_SNAPSHOTS_ON_DISK_H_
