// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/shared_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"

namespace atl::audit {

absl::StatusOr<SharedLock> SharedLock::Take(const std::string& root) {
  const std::string path = JoinPath(root, "LOCK");
  SharedLock lock(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (lock.fd_ < 0 && errno == ENOENT) return lock;  // a copy has no lock file
  if (lock.fd_ < 0)
    return absl::PermissionDeniedError(absl::StrCat(path, " cannot be opened; run this as the coordinator's user"));
  if (::flock(lock.fd_, LOCK_SH | LOCK_NB) == 0) return lock;
  char holder[32] = {};
  const ssize_t bytes = ::pread(lock.fd_, holder, sizeof holder - 1, 0);
  return absl::FailedPreconditionError(
      absl::StrCat("the state directory ", root, " is in use by process ", bytes > 0 ? holder : "unknown",
                   "; stop that coordinator first, or name a backup of it, which may be taken while it runs"));
}

SharedLock::SharedLock(SharedLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

SharedLock::~SharedLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace atl::audit
