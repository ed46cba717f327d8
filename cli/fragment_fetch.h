// Downloads to files and strings that survive broken connections: each goes on at the byte it had reached.
#ifndef ATOLL_CLI_FRAGMENT_FETCH_H_
#define ATOLL_CLI_FRAGMENT_FETCH_H_

#include <cstdint>
#include <functional>
#include <string>

#include "cli/session.h"

namespace atl::cli {

// Fetches one fragment of a checkpoint into `path` (little-endian fp32, `elements` of them), checked against the digest
// that the coordinator sends. DataLoss when it does not agree. `on_bytes` hears how many bytes have come.
absl::Status FetchFragment(Session& session, const CheckpointFragmentKey& key, uint64_t elements,
                           const std::string& path, const std::function<void(uint64_t bytes)>& on_bytes);

// Fetches a stored file of at most `limit_bytes` and checks its SHA-256.
absl::StatusOr<std::string> FetchBlob(Session& session, const Sha256& sha256, uint64_t limit_bytes);

}  // namespace atl::cli

#endif  // ATOLL_CLI_FRAGMENT_FETCH_H_
