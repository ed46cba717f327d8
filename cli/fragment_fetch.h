// SPDX-License-Identifier: Apache-2.0
// Downloads to files and strings that survive broken connections: each goes on at the byte it had reached.
#ifndef ATOLL_CLI_FRAGMENT_FETCH_H_
#define ATOLL_CLI_FRAGMENT_FETCH_H_

#include <cstdint>
#include <functional>
#include <string>

#include "cli/session.h"

namespace atl::cli {

// One fragment of a checkpoint, and what its bytes must be.
struct FragmentOfCheckpoint {
  CheckpointFragmentKey key;
  uint64_t elements = 0;
  uint64_t version = 0;
  Digest layout;        // of the job's ModelLayout
  Digest content_hash;  // as committed
};

enum class FragmentUse { kScratch, kKept };

// Fetches a fragment into `path` as little-endian fp32 and checks it against its content hash: DataLoss when it has
// another. One that is kept is flushed then. `on_bytes` hears how many bytes have come.
absl::Status FetchFragment(Session& session, const FragmentOfCheckpoint& fragment, const std::string& path,
                           FragmentUse use, const std::function<void(uint64_t bytes)>& on_bytes);

// Fetches a stored file of at most `limit_bytes` and checks its SHA-256.
absl::StatusOr<std::string> FetchBlob(Session& session, const Sha256& sha256, uint64_t limit_bytes);

}  // namespace atl::cli

#endif  // ATOLL_CLI_FRAGMENT_FETCH_H_
