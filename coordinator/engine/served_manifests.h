// SPDX-License-Identifier: Apache-2.0
// Parsed manifests of the corpora whose blocks workers ask for. A manifest names every block of its corpus, so
// parsing it for each block would cost time quadratic in the corpus size. Thread rule: as the blob store's reads.
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

  // Caches the manifests used last; damage to a cached blob goes unnoticed. NotFound and DataLoss
  // as BlobStore::Read, InvalidArgument if the blob is not a manifest.
  absl::StatusOr<std::shared_ptr<const CorpusManifest>> Get(const Sha256& sha256);

 private:
  const BlobStore& blobs_;
  const size_t most_blocks_;
  std::list<std::pair<Sha256, std::shared_ptr<const CorpusManifest>>> kept_;  // newest first
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_SERVED_MANIFESTS_H_
