// SPDX-License-Identifier: Apache-2.0
// `atoll-worker generate` and `atoll-worker eval-loss`: a Hugging Face directory is loaded on the CPU and prints text,
// or the loss on a corpus. They talk to no coordinator.
#ifndef ATOLL_WORKER_TRAIN_GENERATE_H_
#define ATOLL_WORKER_TRAIN_GENERATE_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "common/base/status.h"

namespace atl {

struct GenerateOptions {
  std::string checkpoint;  // directory with config.json, safetensors and tokenizer files
  std::string prompt;
  uint32_t max_tokens = 200;  // at most 65,536
  double temperature = 0.8;   // 0: always the likeliest token
  uint32_t top_k = 50;        // drawn from the k likeliest; 0: from all
  uint64_t seed = 0;          // same seed, same text on one machine
  int32_t threads = 0;        // of LibTorch; 0: its default
};

// Writes prompt and continuation to `out` as it comes, until max_tokens or end of text, then a line end; one line about
// the model to `talk`. An empty prompt begins a document. What lies further back than the model's longest sequence is
// forgotten; each token is a pass over the whole window. NotFound or InvalidArgument name the file that is missing or
// wrong.
absl::Status RunGenerate(const GenerateOptions& options, std::ostream& out, std::ostream& talk);

struct EvalLossOptions {
  std::string checkpoint;
  std::string manifest;            // manifest.json of a corpus, its shards beside it
  bool train_split = false;        // default: held-out
  uint32_t sequence_length = 256;  // T
  uint64_t max_tokens = 65536;     // targets read, rounded up to whole samples; 0: the whole split
  bool separate_documents = false;
  int32_t threads = 0;
};

// Prints one JSON object a line: {"nll":…,"tokens":…,"loss":…,"perplexity":…,"bits_per_byte":…}. Samples are the
// split's, shard after shard, T targets each, the same that an evaluation of a run reads.
absl::Status RunEvalLoss(const EvalLossOptions& options, std::ostream& out, std::ostream& talk);

}  // namespace atl

#endif  // ATOLL_WORKER_TRAIN_GENERATE_H_
