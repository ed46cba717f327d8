// SPDX-License-Identifier: Apache-2.0
// Loads a Hugging Face directory into host memory: configuration, parameters in the arena's layout, tokenizer.
#ifndef ATOLL_WORKER_TRAIN_CHECKPOINT_H_
#define ATOLL_WORKER_TRAIN_CHECKPOINT_H_

#include <memory>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/format/huggingface.h"
#include "common/plan/model_layout.h"
#include "common/text/tokenizer.h"
#include "worker/model/arena.h"

namespace atl {

struct Checkpoint {
  HuggingFaceConfig config;
  ModelLayout layout;  // one fragment
  std::unique_ptr<Arena> parameters;
};

// NotFound or InvalidArgument name the file and its fault; ResourceExhausted if it does not fit into memory.
absl::StatusOr<Checkpoint> LoadCheckpoint(const Files& files, const std::string& directory);

// The tokenizer next to the weights: tokenizer.model (SentencePiece), or the tokenizer.json of the byte
// tokenizer. InvalidArgument for a tokenizer.json of another kind, NotFound if there is neither.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadCheckpointTokenizer(const Files& files, const std::string& directory);

}  // namespace atl

#endif  // ATOLL_WORKER_TRAIN_CHECKPOINT_H_
