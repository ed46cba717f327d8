// SPDX-License-Identifier: Apache-2.0
// Bytes that a fragment's outer copy is installed or moved with.
#ifndef ATOLL_WORKER_REPLICA_FETCHED_BYTES_H_
#define ATOLL_WORKER_REPLICA_FETCHED_BYTES_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "common/base/hash.h"
#include "common/plan/messages.h"

namespace atl {

using SharedBytes = std::shared_ptr<const std::vector<std::byte>>;

// A whole fragment, or the update that made `at.version`. The digest of the transfer has been checked.
struct FetchedBytes {
  JobId job;
  FragmentVersion at;
  bool whole = false;
  Digest hash;  // ContentHash of the fragment at that version
  SharedBytes bytes;
};

}  // namespace atl

#endif  // ATOLL_WORKER_REPLICA_FETCHED_BYTES_H_
