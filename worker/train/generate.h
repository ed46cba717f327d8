// SPDX-License-Identifier: Apache-2.0
// `atoll-worker generate` and `atoll-worker eval-loss`: load a Hugging Face directory on the CPU
// and print text, or the loss on a corpus. Both work without a coordinator.
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
  double temperature = 0.8;   // 0: always the most likely token
  uint32_t top_k = 50;        // drawn from the k most likely; 0: from all
  uint64_t seed = 0;          // same seed, same text on one machine
  int32_t threads = 0;        // of LibTorch; 0: its default, but 1 for a small model
};

// Writes prompt and continuation to `out` as they are produced, until max_tokens or end of text,
// then a newline; writes one line about the model to `talk`. An empty prompt begins a document. The
// context is cut to the model's longest sequence; each token is a pass over the whole window.
// NotFound or InvalidArgument name the missing or faulty file.
absl::Status RunGenerate(const GenerateOptions& options, std::ostream& out, std::ostream& talk);

struct EvalLossOptions {
  std::string checkpoint;
  std::string manifest;            // manifest.json of a corpus, in the directory of its shards
  bool train_split = false;        // default: held-out
  uint32_t sequence_length = 256;  // T
  uint64_t max_tokens = 65536;     // targets, rounded up to whole samples; 0: the whole split
  bool separate_documents = false;
  int32_t threads = 0;
};

// Prints one line: {"nll":…,"tokens":…,"loss":…,"perplexity":…,"bits_per_byte":…}, the last one if it is known.
// The samples are the split's, shard after shard, T targets each, as in the evaluations of a run.
absl::Status RunEvalLoss(const EvalLossOptions& options, std::ostream& out, std::ostream& talk);

}  // namespace atl

#endif  // ATOLL_WORKER_TRAIN_GENERATE_H_
