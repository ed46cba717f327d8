// SPDX-License-Identifier: Apache-2.0
// The manifests of the corpora whose blocks are asked for, read from their blobs and parsed once: a manifest names
// every block of its corpus, so that reading it anew for each of them takes time with the square of the corpus's size.
// Thread rule: that of the blob store.
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
  // Of those that are kept together, 32 bytes each; a corpus with more of them is kept alone.
  static constexpr size_t kBlocks = size_t{1} << 18;  // of 256 GiB

  // `blobs` outlives it.
  explicit ServedManifests(const BlobStore& blobs, size_t blocks = kBlocks) : blobs_(blobs), most_blocks_(blocks) {}

  // Those asked for last stay in memory, where later damage to the blob is not seen. NotFound and DataLoss as
  // BlobStore::Read, InvalidArgument where it is no manifest.
  absl::StatusOr<std::shared_ptr<const CorpusManifest>> Get(const Sha256& sha256);

 private:
  const BlobStore& blobs_;
  const size_t most_blocks_;
  std::list<std::pair<Sha256, std::shared_ptr<const CorpusManifest>>> kept_;  // the newest first
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_SERVED_MANIFESTS_H_
