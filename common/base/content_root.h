// SPDX-License-Identifier: Apache-2.0
// The content hash (ContentHash of common/base/hash.h) from leaves that were hashed elsewhere, for
// example by a loop over the values that has them in the CPU's cache. Pure.
#ifndef ATOLL_COMMON_BASE_CONTENT_ROOT_H_
#define ATOLL_COMMON_BASE_CONTENT_ROOT_H_

#include <cstdint>
#include <span>

#include "common/base/hash.h"

namespace atl {

// Returns the ContentHash of a fragment from the digests of its leaves in order. A leaf is
// kLeafBytes long; the last one may be shorter.
Digest ContentRoot(std::span<const Digest> leaves, uint64_t version, Digest layout);
// Hashes the leaves of `bytes`, which start at a leaf boundary, into the first elements of
// `leaves`, which must be large enough.
void HashLeaves(Bytes bytes, std::span<Digest> leaves);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_CONTENT_ROOT_H_
