// SPDX-License-Identifier: Apache-2.0
// The process's limit on open files, including sockets.
#ifndef ATOLL_COMMON_BASE_OPEN_FILES_H_
#define ATOLL_COMMON_BASE_OPEN_FILES_H_

#include <cstdint>

namespace atl {

// The soft limit (`ulimit -Sn`); 0: unknown.
uint64_t OpenFilesLimit();

// Raises the soft limit to the hard one (`ulimit -Hn`) if the system allows. Returns the soft limit; 0: unknown.
uint64_t RaiseOpenFiles();

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_OPEN_FILES_H_
