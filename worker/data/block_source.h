// SPDX-License-Identifier: Apache-2.0
// Where the bytes of token shards come from: files below the worker's data root, or the coordinator, with a bounded
// cache on disk in between. A block is kBlockBytes of a shard's token area (the last one shorter), named by corpus,
// shard and index, and checked against the manifest's SHA-256 by whoever hands it out.
#ifndef ATOLL_WORKER_DATA_BLOCK_SOURCE_H_
#define ATOLL_WORKER_DATA_BLOCK_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/format/corpus_manifest.h"
#include "common/format/token_shard.h"

namespace atl {

// A block of one file of a corpus of the job.
struct BlockId {
  uint32_t corpus = 0;  // index into the job's corpora
  uint32_t file = 0;    // index into CorpusManifest::files: training and held-out shards in one count
  uint32_t block = 0;
  friend auto operator<=>(const BlockId&, const BlockId&) = default;
};

// The corpora of a job, in the job's order. Immutable while shared.
using CorpusManifests = std::shared_ptr<const std::vector<CorpusManifest>>;

// Index in the manifest of each training shard, by corpus.
std::vector<std::vector<uint32_t>> TrainingFiles(const std::vector<CorpusManifest>& manifests);
// Size of a block, and its hash, by the manifest. Requires an id that is in the manifests.
uint64_t BlockSizeBytes(const CorpusManifest& manifest, const BlockId& id);
const Sha256& BlockHash(const CorpusManifest& manifest, const BlockId& id);
// InvalidArgument when there is no such block.
absl::Status CheckBlockId(const std::vector<CorpusManifest>& manifests, const BlockId& id);
// DataLoss unless `bytes`, which came from `where`, have the manifest's hash.
absl::Status CheckBlock(const CorpusManifest& manifest, const BlockId& id, const std::string& bytes,
                        const std::string& where);

// Implementations are thread-safe and may block, within a limit of their own; they return exactly the block's bytes
// with the manifest's hash, or an error: NotFound (names the shard, where it was looked for and what to do), DataLoss
// (shard, block, expected and actual hash), Unavailable (worth trying again).
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  virtual absl::StatusOr<std::string> FetchBlock(const BlockId& id) = 0;
  // Has the block lie where FetchBlock needs no other machine for it, if the source has such a place, with room; errors
  // as of FetchBlock.
  virtual absl::Status KeepBlock(const BlockId&) { return absl::OkStatus(); }
};

}  // namespace atl

#endif  // ATOLL_WORKER_DATA_BLOCK_SOURCE_H_
