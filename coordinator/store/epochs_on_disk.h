// SPDX-License-Identifier: Apache-2.0
// The epochs of a job on disk: directories e<epoch>/f<fragment> of the round log, of kept updates and of snapshots.
#ifndef ATOLL_COORDINATOR_STORE_EPOCHS_ON_DISK_H_
#define ATOLL_COORDINATOR_STORE_EPOCHS_ON_DISK_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"

namespace atl {

// Epochs with a directory below `path`, ascending. Empty if `path` does not exist.
absl::StatusOr<std::vector<uint64_t>> EpochsOnDisk(const Files& files, const std::string& path);

// Removes the directories of epochs below `epoch`, in this call at most `most` files of them. True
// when all of them are removed; false: call again. Open files stay readable.
absl::StatusOr<bool> RemoveEpochsBefore(Files& files, const std::string& path, uint64_t epoch, size_t most);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_EPOCHS_ON_DISK_H_
