// SPDX-License-Identifier: Apache-2.0
// The root of the content hash (common/base/hash.h) from leaves that were hashed elsewhere, as by a pass that holds the
// values in its cache. Pure, safe everywhere.
#ifndef ATOLL_COMMON_BASE_CONTENT_ROOT_H_
#define ATOLL_COMMON_BASE_CONTENT_ROOT_H_

#include <cstdint>
#include <span>

#include "common/base/hash.h"

namespace atl {

// ContentHash of a fragment whose leaves, in order, have these digests: DigestOf kLeafBytes each, the last of what is
// left.
Digest ContentRoot(std::span<const Digest> leaves, uint64_t version, Digest layout);
// Of bytes that begin with a leaf, into the first of `leaves`, of which there are enough.
void HashLeaves(Bytes bytes, std::span<Digest> leaves);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_CONTENT_ROOT_H_
