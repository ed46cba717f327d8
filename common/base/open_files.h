// SPDX-License-Identifier: Apache-2.0
// How many files, sockets among them, this process may hold open.
#ifndef ATOLL_COMMON_BASE_OPEN_FILES_H_
#define ATOLL_COMMON_BASE_OPEN_FILES_H_

#include <cstdint>

namespace atl {

// 0: not known.
uint64_t OpenFilesLimit();

// Raises the limit (`ulimit -Sn`), which is that of a careless program, to the hard one (`ulimit -Hn`). Gives what it
// is then.
uint64_t RaiseOpenFiles();

// How many of so many files the downloads of a coordinator may hold open at a time; 0: not known.
uint64_t FilesOfDownloads(uint64_t limit);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_OPEN_FILES_H_
