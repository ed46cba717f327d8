// SPDX-License-Identifier: Apache-2.0
// Which snapshots of fragments are on disk.
#ifndef ATOLL_COORDINATOR_STORE_SNAPSHOTS_ON_DISK_H_
#define ATOLL_COORDINATOR_STORE_SNAPSHOTS_ON_DISK_H_

#include <cstdint>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/plan/records.h"
#include "coordinator/store/data_directory.h"

namespace atl {

// Versions with a snapshot, ascending; half written files do not count. None where the directory is not there.
absl::StatusOr<std::vector<Version>> SnapshotsOnDisk(const Files& files, const DataDirectory& directory,
                                                     const JobId& job, uint64_t epoch, FragmentIndex fragment);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_SNAPSHOTS_ON_DISK_H_
