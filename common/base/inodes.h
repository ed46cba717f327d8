// SPDX-License-Identifier: Apache-2.0
#ifndef ATOLL_COMMON_BASE_INODES_H_
#define ATOLL_COMMON_BASE_INODES_H_

#include <algorithm>
#include <cstdint>

#include "common/base/files.h"

namespace atl {

// A file system without free inodes takes no file: returns `space` with free_bytes of at most
// total_bytes x free_inodes / inodes. `inodes` is 0 where there is no limit (Btrfs). Pure.
inline Files::Space SpaceWithInodes(Files::Space space, uint64_t free_inodes, uint64_t inodes) {
  if (free_inodes >= inodes) return space;
  const double share = static_cast<double>(free_inodes) / static_cast<double>(inodes);
  space.free_bytes = std::min(space.free_bytes, static_cast<uint64_t>(share * static_cast<double>(space.total_bytes)));
  return space;
}

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_INODES_H_
