// SPDX-License-Identifier: Apache-2.0
// The bytes of a download: a whole fragment, or an update of its outer copy.
#ifndef ATOLL_WORKER_REPLICA_FETCHED_BYTES_H_
#define ATOLL_WORKER_REPLICA_FETCHED_BYTES_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "common/base/hash.h"
#include "common/plan/messages.h"

namespace atl {

using SharedBytes = std::shared_ptr<const std::vector<std::byte>>;

// A whole fragment, or the update that made `at.version`. The transfer's digest has been checked, `hash` has not.
struct FetchedBytes {
  JobId job;
  FragmentVersion at;
  bool whole = false;
  Digest hash;  // ContentHash of the fragment at that version
  SharedBytes bytes;
};

}  // namespace atl

#endif  // ATOLL_WORKER_REPLICA_FETCHED_BYTES_H_
