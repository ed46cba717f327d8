// SPDX-License-Identifier: Apache-2.0
// Parsed manifests of the corpora whose blocks workers ask for: a manifest names every block, so parsing it
// for each block would cost time quadratic in the corpus size. Not thread-safe: used on one serial executor.
#ifndef ATOLL_COORDINATOR_ENGINE_SERVED_MANIFESTS_H_
#define ATOLL_COORDINATOR_ENGINE_SERVED_MANIFESTS_H_

#include <cstddef>
#include <list>
#include <memory>
#include <utility>

#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/format/corpus_manifest.h"
#include "coordinator/store/blob_store.h"

namespace atl {

class ServedManifests {
 public:
  // Limit of blocks over all cached manifests, 32 bytes each. A manifest with more blocks is cached alone.
  static constexpr size_t kBlocks = size_t{1} << 18;  // 256 GiB of tokens

  // `blobs` outlives it.
  explicit ServedManifests(const BlobStore& blobs, size_t blocks = kBlocks) : blobs_(blobs), most_blocks_(blocks) {}

  // The manifest stored as `sha256`; the ones used last are cached, so damage to a cached blob goes
  // unnoticed. Errors are those of BlobStore::Read, and InvalidArgument if the blob is not a manifest.
  absl::StatusOr<std::shared_ptr<const CorpusManifest>> Get(const Sha256& sha256);

 private:
  const BlobStore& blobs_;
  const size_t most_blocks_;
  std::list<std::pair<Sha256, std::shared_ptr<const CorpusManifest>>> kept_;  // newest first
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_SERVED_MANIFESTS_H_
