// SPDX-License-Identifier: Apache-2.0
// Downloads to files and strings that survive broken connections: each continues at the byte
// reached.
#ifndef ATOLL_CLI_FRAGMENT_FETCH_H_
#define ATOLL_CLI_FRAGMENT_FETCH_H_

#include <cstdint>
#include <functional>
#include <string>

#include "cli/session.h"

namespace atl::cli {

// A fragment of a checkpoint, with the expected facts about its bytes.
struct FragmentOfCheckpoint {
  CheckpointFragmentKey key;
  uint64_t elements = 0;
  uint64_t version = 0;
  Digest layout;        // of the job's ModelLayout
  Digest content_hash;  // as committed
};

enum class FragmentUse { kScratch, kKept };

// Fetches a fragment into `path` as little-endian fp32 and verifies its content hash; DataLoss after a second
// mismatch. With kKept the file is then flushed. `on_bytes` receives the bytes so far of an attempt.
absl::Status FetchFragment(Session& session, const FragmentOfCheckpoint& fragment, const std::string& path,
                           FragmentUse use, const std::function<void(uint64_t bytes)>& on_bytes);

// Fetches a stored file of at most `limit_bytes` and verifies its SHA-256.
absl::StatusOr<std::string> FetchBlob(Session& session, const Sha256& sha256, uint64_t limit_bytes);

}  // namespace atl::cli

#endif  // ATOLL_CLI_FRAGMENT_FETCH_H_
