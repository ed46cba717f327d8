// SPDX-License-Identifier: Apache-2.0
// Protects the reading of a stopped coordinator's state directory.
#ifndef ATOLL_COORDINATOR_AUDIT_SHARED_LOCK_H_
#define ATOLL_COORDINATOR_AUDIT_SHARED_LOCK_H_

#include <string>

#include "common/base/status.h"

namespace atl::audit {

// A shared lock on the file LOCK of a state directory: refused while a coordinator holds the lock, and keeps
// one from starting until it is destroyed. Creates nothing: without the file, as in a copy, it locks nothing.
class SharedLock {
 public:
  // FailedPrecondition, naming directory and process, if it is held; PermissionDenied if LOCK cannot be opened.
  static absl::StatusOr<SharedLock> Take(const std::string& root);
  SharedLock(SharedLock&& other) noexcept;
  SharedLock& operator=(SharedLock&&) = delete;
  ~SharedLock();

 private:
  explicit SharedLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_SHARED_LOCK_H_
