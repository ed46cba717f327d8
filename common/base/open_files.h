// SPDX-License-Identifier: Apache-2.0
// The process's limit on open files, including sockets.
#ifndef ATOLL_COMMON_BASE_OPEN_FILES_H_
#define ATOLL_COMMON_BASE_OPEN_FILES_H_

#include <cstdint>

namespace atl {

// 0: unknown.
uint64_t OpenFilesLimit();

// Raises the soft limit (`ulimit -Sn`) to the hard one (`ulimit -Hn`). Returns the new limit.
uint64_t RaiseOpenFiles();

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_OPEN_FILES_H_
