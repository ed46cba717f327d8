// SPDX-License-Identifier: Apache-2.0
// The right to read a state directory that nobody writes.
#ifndef ATOLL_COORDINATOR_AUDIT_SHARED_LOCK_H_
#define ATOLL_COORDINATOR_AUDIT_SHARED_LOCK_H_

#include <string>

#include "common/base/status.h"

namespace atl::audit {

// A shared lock of the file LOCK of a state directory: refused while a coordinator holds it, and keeps one from
// starting until it is destroyed. Makes nothing: where there is no such file, as in a copy, it locks nothing.
class SharedLock {
 public:
  // FailedPrecondition, naming directory and process, when it is held; PermissionDenied when LOCK cannot be opened.
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
