// SPDX-License-Identifier: Apache-2.0
// Disk space for a copy, and for the coordinator: below 10 % of free space a coordinator takes no
// contributions (coordinator/store/data_directory.h), and a backup must not cause that.
#ifndef ATOLL_COORDINATOR_BACKUP_ROOM_H_
#define ATOLL_COORDINATOR_BACKUP_ROOM_H_

#include <cstdint>
#include <string>
#include <utility>

#include "common/base/files.h"
#include "common/base/status.h"
#include "coordinator/store/data_directory.h"

namespace atl::backup {

class Room {
 public:
  // For a copy of `state_dir` into a directory of `parent`. `files` must outlive it.
  static absl::StatusOr<Room> Find(const Files& files, const std::string& state_dir, const std::string& parent);

  // ResourceExhausted, with the remedy: the copy's disk has fewer than `bytes` free.
  absl::Status Holds(uint64_t bytes) const;
  // ResourceExhausted if Holds or, on a shared disk, Allows refuses `bytes`.
  absl::Status Fits(uint64_t bytes) const;
  // ResourceExhausted if `bytes` more on the state's disk would leave less than 12 % of it free.
  // For a copy on another disk, the dropped files that the copy holds open count instead, and a
  // disk that was that full before is no reason to refuse.
  absl::Status Allows(uint64_t bytes) const;
  // Whether state and copy share a disk.
  bool shared() const { return shared_; }

 private:
  Room(const Files& files, std::string state_dir, std::string parent)
      : files_(files), state_dir_(std::move(state_dir)), parent_(std::move(parent)) {}

  const Files& files_;
  std::string state_dir_, parent_;
  bool shared_ = false;
  bool was_low_ = false;
};

// FailedPrecondition if a rename cannot replace this directory, which may be missing: it is a mount
// point or a symbolic link.
absl::Status CheckIsReplaceable(const std::string& directory);

// Size of the state below `root`; a file with several names counts once.
absl::StatusOr<uint64_t> StateBytes(const std::string& root);

}  // namespace atl::backup

#endif  // ATOLL_COORDINATOR_BACKUP_ROOM_H_
