// SPDX-License-Identifier: Apache-2.0
// For processes that hold keys: what they have in memory stays there.
#ifndef ATOLL_COMMON_BASE_PRIVATE_MEMORY_H_
#define ATOLL_COMMON_BASE_PRIVATE_MEMORY_H_

namespace atl {

// From now on a crash leaves no core dump, and no other process of the same user reads this one's memory, environment
// or open files (root still does). Call it before the first key is read; a program started by exec calls it anew, and
// leaves no core dump until then. Ends the process where the system refuses it.
void KeepMemoryPrivate();

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_PRIVATE_MEMORY_H_
