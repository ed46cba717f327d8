// SPDX-License-Identifier: Apache-2.0
// Writes a corpus directory from documents: shards of both splits and the manifest. Memory is
// bounded (one block per split). Files are written with names ending in ".new", and Finish renames
// them, manifest last. A previous corpus thus remains until the new one is complete.
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
  CorpusTokenizer tokenizer;        // `file` and `sha256` are computed from tokenizer_bytes
  std::string tokenizer_bytes;      // written next to the shards unless empty
  bool append_eot = true;           // requires tokenizer.eot_id
  double held_out_fraction = 0.05;  // in [0, 1): SplitOf selects the documents
  uint64_t split_seed = 0;
  uint64_t shard_tokens = uint64_t{1} << 26;  // a shard ends at the first document boundary at or after this many
  bool replace = false;  // replaces a previous corpus in the directory; other files are never touched
};

// Returns the split of a document: held-out when a hash of (seed, content) is below
// `held_out_fraction`. The result does not depend on the order or number of documents, and equal
// documents are in the same split.
CorpusSplit SplitOf(Bytes document, double held_out_fraction, uint64_t seed);

class CorpusWriter {
 public:
  // Creates the directory, and removes leftovers of a killed run. AlreadyExists when it then is not empty, unless
  // `replace` is set and it contains a readable corpus manifest. InvalidArgument for options out of range.
  static absl::StatusOr<std::unique_ptr<CorpusWriter>> Create(Files& files, std::string directory,
                                                              CorpusWriterOptions options);
  // Removes unfinished files.
  ~CorpusWriter();
  // Adds a document: its ids without end-of-text, and its length as UTF-8 text.
  absl::Status Add(CorpusSplit split, std::span<const uint32_t> ids, uint64_t text_bytes);
  // FailedPrecondition for an empty training split, or an empty held-out split although one was requested. Otherwise
  // closes the shards, computes the bigram baseline if the held-out split has two tokens, publishes the files and
  // returns the written manifest.
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
  std::vector<std::string> earlier_;      // files of the replaced corpus
  std::vector<std::string> unpublished_;  // final names of files that still end in ".new"
};

}  // namespace atl

#endif  // ATOLL_COMMON_FORMAT_CORPUS_WRITER_H_
