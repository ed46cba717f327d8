// SPDX-License-Identifier: Apache-2.0
// Keeps the memory of a process with keys private.
#ifndef ATOLL_COMMON_BASE_PRIVATE_MEMORY_H_
#define ATOLL_COMMON_BASE_PRIVATE_MEMORY_H_

namespace atl {

// From now on a crash leaves no core dump, and no other process of the same user can read this one's memory,
// environment or open files (root still can). Call before the first key is read. A program that this process starts
// by exec must call it again: until then its memory can be read, and the kernel dumps it where core_pattern pipes
// dumps to a program. Ends the process if the system refuses.
void KeepMemoryPrivate();

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_PRIVATE_MEMORY_H_
