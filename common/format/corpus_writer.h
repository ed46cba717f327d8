// SPDX-License-Identifier: Apache-2.0
// Makes a corpus directory: documents in, shards of both splits and the manifest out. Memory is bounded (one block a
// split). Everything is written under names ending in ".new" and renamed by Finish, manifest last, so an earlier corpus
// stands until the new one is whole.
#ifndef ATOLL_COMMON_FORMAT_CORPUS_WRITER_H_
#define ATOLL_COMMON_FORMAT_CORPUS_WRITER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/format/corpus_manifest.h"
#include "common/format/token_shard.h"

namespace atl {

struct CorpusWriterOptions {
  std::string name;                 // of the corpus
  CorpusTokenizer tokenizer;        // `file` and `sha256` are filled from tokenizer_bytes
  std::string tokenizer_bytes;      // written beside the shards unless empty
  bool append_eot = true;           // needs tokenizer.eot_id
  double held_out_fraction = 0.05;  // in [0, 1): documents are drawn by SplitOf
  uint64_t split_seed = 0;
  uint64_t shard_tokens = uint64_t{1} << 26;  // a shard ends at the first document boundary at or after this many
  bool replace = false;  // an earlier corpus in the directory is replaced; other files are never touched
};

// The split of a document: held-out when a hash of (seed, content) falls below `held_out_fraction`, so that the answer
// depends on neither order nor number of documents, and equal documents stay on one side.
CorpusSplit SplitOf(Bytes document, double held_out_fraction, uint64_t seed);

class CorpusWriter {
 public:
  // AlreadyExists when `directory` holds anything and (without `replace`, or with `replace` but no manifest of ours).
  // InvalidArgument for options out of range. Creates the directory.
  static absl::StatusOr<std::unique_ptr<CorpusWriter>> Create(Files& files, std::string directory,
                                                              CorpusWriterOptions options);
  // Removes unfinished files.
  ~CorpusWriter();
  // One document: its ids without end-of-text, and its UTF-8 text length.
  absl::Status Add(CorpusSplit split, std::span<const uint32_t> ids, uint64_t text_bytes);
  // FailedPrecondition for an empty corpus, or an empty held-out split although one was asked for. Otherwise closes the
  // shards, measures the bigram baseline where both splits hold tokens, publishes, returns the manifest as written.
  absl::StatusOr<CorpusManifest> Finish();

 private:
  struct SplitState {
    std::unique_ptr<TokenShardWriter> shard;
    std::vector<CorpusFile> files;
    uint64_t documents_in_shard = 0;
    CorpusTotals totals;
  };
  CorpusWriter(Files& files, std::string directory, CorpusWriterOptions options);
  absl::Status CloseShard(CorpusSplit split);
  absl::Status Publish(CorpusManifest& manifest);
  SplitState& State(CorpusSplit split) { return splits_[split == CorpusSplit::kTrain ? 0 : 1]; }

  Files& files_;
  std::string directory_;
  CorpusWriterOptions options_;
  TokenType type_;
  std::array<SplitState, 2> splits_;
  std::vector<std::string> earlier_;      // file names of the corpus that is replaced
  std::vector<std::string> unpublished_;  // final names of files that still end in ".new"
};

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_CORPUS_WRITER_H_
