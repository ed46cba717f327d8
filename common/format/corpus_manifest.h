// SPDX-License-Identifier: Apache-2.0
// manifest.json of a corpus directory (docs/formats/corpus.md): the shards, their contents, and the
// hash of every block. A worker can therefore fetch, check and cache only the blocks that it trains
// on. The manifest is written last: a directory without it is not a corpus.
#ifndef ATOLL_COMMON_FORMAT_CORPUS_MANIFEST_H_
#define ATOLL_COMMON_FORMAT_CORPUS_MANIFEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/format/token_shard.h"

namespace atl {

constexpr uint32_t kCorpusFormatRevision = 1;
constexpr size_t kCorpusFiles = 65536;  // more are refused
inline constexpr char kManifestName[] = "manifest.json";

enum class CorpusSplit { kTrain, kHeldOut };  // "train", "held_out"
std::string SplitName(CorpusSplit split);

struct CorpusFile {
  std::string name;  // plain file name in the corpus directory: [A-Za-z0-9._-]+, not starting with '.'
  CorpusSplit split = CorpusSplit::kTrain;
  uint64_t bytes = 0;  // size of the file, including its header
  Sha256 sha256;       // of the file
  uint64_t tokens = 0;
  uint64_t documents = 0;      // documents that begin in this file
  std::vector<Sha256> blocks;  // SHA-256 of token-area bytes [i * 1 MiB, (i + 1) * 1 MiB), the last shorter
};

struct CorpusTokenizer {
  std::string kind;  // "bytes" or "sentencepiece"
  std::string file;  // plain name in the corpus directory; empty for "bytes"
  Sha256 sha256;     // of the file; zero for "bytes"
  uint32_t vocab_size = 0;
  std::optional<uint32_t> eot_id;  // nullopt when the tokenizer has no end-of-text token
};

// Totals over one split.
struct CorpusTotals {
  uint64_t documents = 0;
  uint64_t tokens = 0;      // including end-of-text tokens
  uint64_t text_bytes = 0;  // UTF-8 bytes of the documents: bits per byte = nats / ln 2 * tokens / text_bytes
};

// A bigram model counted on train and scored on held-out, as a baseline (formula in bigram.h).
struct BigramBaseline {
  double perplexity = 0;  // per token
  double bits_per_byte = 0;
  uint64_t train_tokens = 0;   // counted
  uint64_t scored_tokens = 0;  // predicted held-out tokens: all but the first of each shard
};

struct CorpusManifest {
  uint32_t format_revision = kCorpusFormatRevision;
  std::string name;  // for people; [A-Za-z0-9._-]{1,63}
  TokenType token_type = TokenType::kUint16;
  CorpusTokenizer tokenizer;
  bool eot_appended = true;      // the end-of-text token follows every document
  double held_out_fraction = 0;  // requested, in [0, 1)
  uint64_t split_seed = 0;
  CorpusTotals train, held_out;
  std::optional<BigramBaseline> bigram;
  std::vector<CorpusFile> files;  // train before held-out, each in order

  const CorpusTotals& Totals(CorpusSplit split) const { return split == CorpusSplit::kTrain ? train : held_out; }
  // Returns the files of one split, in manifest order.
  std::vector<const CorpusFile*> FilesOf(CorpusSplit split) const;
};

// Returns the exact bytes of manifest.json: equal manifests give equal bytes.
std::string SerializeManifest(const CorpusManifest& manifest);
// Strict: checks every rule of docs/formats/corpus.md (counts against sizes, number of blocks,
// totals, names). InvalidArgument names the key. An unknown format revision is refused with both
// numbers.
absl::StatusOr<CorpusManifest> ParseManifest(const std::string& json);
// Reads `directory`/manifest.json. NotFound: the directory is not a corpus.
absl::StatusOr<CorpusManifest> ReadManifest(const Files& files, const std::string& directory);
// Writes the manifest atomically.
absl::Status WriteManifest(Files& files, const std::string& directory, const CorpusManifest& manifest);

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_CORPUS_MANIFEST_H_
