// SPDX-License-Identifier: Apache-2.0
#include "coordinator/backup/room.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/backup/manifest.h"

namespace atl::backup {
namespace {

// Whether less than 12 % is free: below 10 % a coordinator takes no contributions, and it resumes only at 12 %.
bool IsLow(const Files::Space& space) { return JudgeDiskSpace(space, DiskState::kLow) == DiskState::kLow; }

// Whether the directory is on another file system than its parent, or, if the kernel reports it, a bind mount of the
// same one.
bool IsMountPoint(const std::string& directory) {
  struct stat inner {
  }, outer{};
  if (::stat(directory.c_str(), &inner) != 0 || ::stat(JoinPath(directory, "..").c_str(), &outer) != 0) return false;
  if (inner.st_dev != outer.st_dev) return true;
#ifdef STATX_ATTR_MOUNT_ROOT
  struct statx more {};
  if (::statx(AT_FDCWD, directory.c_str(), 0, 0, &more) != 0) return false;
  return (more.stx_attributes & more.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0;
#else
  return false;
#endif
}

}  // namespace

absl::StatusOr<Room> Room::Find(const Files& files, const std::string& state_dir, const std::string& parent) {
  Room room(files, state_dir, parent);
  struct stat state {
  }, target{};
  room.shared_ =
      ::stat(state_dir.c_str(), &state) == 0 && ::stat(parent.c_str(), &target) == 0 && state.st_dev == target.st_dev;
  ATOLL_ASSIGN_OR_RETURN(const Files::Space space, files.SpaceAt(state_dir));
  room.was_low_ = IsLow(space);
  return room;
}

absl::Status Room::Holds(uint64_t bytes) const {
  ATOLL_ASSIGN_OR_RETURN(const Files::Space space, files_.SpaceAt(parent_));
  if (space.free_bytes < bytes)
    return absl::ResourceExhaustedError(absl::StrCat("the copy needs ", bytes, " bytes, but ", parent_, " has ",
                                                     space.free_bytes,
                                                     " bytes free; free disk space or use another disk"));
  return absl::OkStatus();
}

absl::Status Room::Fits(uint64_t bytes) const {
  ATOLL_RETURN_IF_ERROR(Holds(bytes));
  return shared_ ? Allows(bytes) : absl::OkStatus();
}

absl::Status Room::Allows(uint64_t bytes) const {
  ATOLL_ASSIGN_OR_RETURN(Files::Space space, files_.SpaceAt(state_dir_));
  if (shared_) space.free_bytes -= std::min(space.free_bytes, bytes);
  if (!IsLow(space) || (was_low_ && !shared_)) return absl::OkStatus();
  if (shared_)
    return absl::ResourceExhaustedError(
        absl::StrCat("the copy would leave less than 12 % of the disk of ", state_dir_,
                     " free, and below 10 % its coordinator accepts no contributions; use another disk"));
  return absl::ResourceExhaustedError(absl::StrCat(
      "less than 12 % of the disk of ", state_dir_,
      " is free now, because the copy keeps files that the coordinator has dropped; free disk space and try again"));
}

absl::Status CheckIsReplaceable(const std::string& directory) {
  std::error_code error;
  if (std::filesystem::is_symlink(directory, error)) {
    return absl::FailedPreconditionError(absl::StrCat(
        directory, " is a symbolic link and cannot be replaced by the finished copy; name the target of the link"));
  }
  if (!IsMountPoint(directory)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      directory, " is a mount point and cannot be replaced by the finished copy; name a directory below it"));
}

absl::StatusOr<uint64_t> StateBytes(const std::string& root) {
  ATOLL_ASSIGN_OR_RETURN(std::vector<std::string> paths, ListStateFiles(root));
  for (const char* ledger : {"ledger.sqlite", "ledger.sqlite-wal"}) paths.emplace_back(ledger);
  uint64_t bytes = 0;
  std::set<std::pair<dev_t, ino_t>> seen;
  for (const std::string& path : paths) {
    struct stat s {};
    if (::stat(JoinPath(root, path).c_str(), &s) != 0 || !seen.emplace(s.st_dev, s.st_ino).second) continue;
    bytes += static_cast<uint64_t>(s.st_size);
  }
  return bytes;
}

}  // namespace atl::backup
