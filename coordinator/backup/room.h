// SPDX-License-Identifier: Apache-2.0
// Room for a copy, and for the coordinator beside it: below 10 % of free space a coordinator takes no contributions
// (coordinator/store/data_directory.h), and a backup must not bring it there.
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

  // ResourceExhausted, with what to do: a whole copy of `bytes` does not fit.
  absl::Status Holds(uint64_t bytes) const;
  // Likewise, or Allows says so of it.
  absl::Status Fits(uint64_t bytes) const;
  // ResourceExhausted: `bytes` more on the state's disk, or what a copy elsewhere holds there of files that are
  // dropped, would leave less than 12 % of that disk free. A disk that was that full before is no reason against a copy
  // elsewhere.
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

// FailedPrecondition when no other directory can take the place of this one, which may be absent, by a rename: it is a
// mount point or a symbolic link.
absl::Status CheckIsReplaceable(const std::string& directory);

// Of the state below `root`, a file of several names once.
absl::StatusOr<uint64_t> StateBytes(const std::string& root);

}  // namespace atl::backup

#endif  // ATOLL_COORDINATOR_BACKUP_ROOM_H_
