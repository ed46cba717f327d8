// SPDX-License-Identifier: Apache-2.0
// Sources of token shard bytes: files below the worker's data root, or the coordinator with a bounded cache on
// disk. A block is kBlockBytes of a shard's token area (the last one may be shorter), named by corpus, shard
// and index. Each source checks its blocks against the manifest's SHA-256.
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
  uint32_t file = 0;    // index into CorpusManifest::files, which lists training and held-out shards together
  uint32_t block = 0;
  friend auto operator<=>(const BlockId&, const BlockId&) = default;
};

// The corpora of a job, in the job's order. Immutable while shared.
using CorpusManifests = std::shared_ptr<const std::vector<CorpusManifest>>;

// For each corpus, the indices of its training shards in CorpusManifest::files.
std::vector<std::vector<uint32_t>> TrainingFiles(const std::vector<CorpusManifest>& manifests);
// The size of a block and its hash, from the manifest. Require an id that CheckBlockId accepts.
uint64_t BlockSizeBytes(const CorpusManifest& manifest, const BlockId& id);
const Sha256& BlockHash(const CorpusManifest& manifest, const BlockId& id);
// InvalidArgument if there is no such block.
absl::Status CheckBlockId(const std::vector<CorpusManifest>& manifests, const BlockId& id);
// DataLoss unless `bytes` have the manifest's hash. `where`, for the message: the shard's path, or text without '/'.
absl::Status CheckBlock(const CorpusManifest& manifest, const BlockId& id, const std::string& bytes,
                        const std::string& where);

// Implementations are thread-safe and may block, within their own limits. They return exactly the
// block's bytes with the manifest's hash, or an error, such as NotFound (names the shard, the place and the
// remedy), DataLoss (shard, block, expected and actual hash), Unavailable (the caller may retry).
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  virtual absl::StatusOr<std::string> FetchBlock(const BlockId& id) = 0;
  // Makes the source store the block, if it has space, so that a later FetchBlock needs no other
  // machine. Does nothing by default. Errors as FetchBlock.
  virtual absl::Status KeepBlock(const BlockId&) { return absl::OkStatus(); }
};

}  // namespace atl

#endif  // ATOLL_WORKER_DATA_BLOCK_SOURCE_H_
