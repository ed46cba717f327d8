// SPDX-License-Identifier: Apache-2.0
// The Llama family over the parameter arena: RMSNorm, rotary embeddings (rotate-half, as Hugging
// Face), grouped-query attention, SwiGLU, tied or untied head. Weights are views into the arena, so
// nothing is copied when the optimizer or a merge changes them. No LibTorch type appears in this
// header; its exceptions become statuses. Losses and norm statistics are fp32. With bf16, weights
// are read from a copy of the arena rounded to bf16. Activations are then bf16 if the device
// multiplies bf16; a CPU that does not uses the rounded weights in fp32.
#ifndef ATOLL_WORKER_MODEL_MODEL_H_
#define ATOLL_WORKER_MODEL_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/plan/job_spec.h"
#include "common/plan/model_layout.h"
#include "worker/device/device.h"
#include "worker/model/arena.h"

namespace atl {

struct ModelOptions {
  bool separate_documents = false;  // attention and positions restart after each end-of-text token
  int32_t end_of_text = -1;         // token id; -1: the tokenizer has none, which is an error with separate_documents
  // Feed of the arenas' device, for any batch; outlives the model. Tokens are copied through it, so
  // that no pass waits for earlier ones. Null: LibTorch's own copy.
  HostFeed* feed = nullptr;
  // Kernels of the arenas' device; outlive the model. Passes under autograd use them between
  // products, once they were found to agree with LibTorch's operators (pass_check.h). Null:
  // LibTorch's operators. A pass without autograd uses none.
  PassKernels* kernels = nullptr;
  // For tests, on a CPU:
  bool as_on_gpu = false;      // training by autograd
  bool bf16_products = false;  // also without the instructions for them
  int64_t score_rows = 0;      // rows at once under autograd; 0: as ScoreRows
};

// Whether this processor has instructions for bf16 products. Without them a bf16 product takes
// several times as long as fp32.
bool CpuMultipliesBf16();

// The number of tokens with scores in memory at once in a training pass. On a CPU: this constant.
// On a GPU: a quarter of a gigabyte of fp32 scores, at least 256 rows; four times as many with
// kernels, which make no copies.
constexpr uint32_t kCpuScoreRows = 512;
int64_t ScoreRows(int64_t vocab, bool by_kernels = false);

// A batch of samples of equal length: tokens[sequence][position], row-major.
struct TokenBatch {
  std::span<const int32_t> tokens;  // sequences x length ids, each in [0, vocab_size)
  uint32_t sequences = 0;
  uint32_t length() const { return sequences == 0 ? 0 : static_cast<uint32_t>(tokens.size() / sequences); }
};

// Negative log-likelihood in nats, summed over targets.
struct LossSum {
  double nll = 0;
  uint64_t targets = 0;
};

// Owned by one thread at a time. Every method: InvalidArgument for a token outside the vocabulary
// or a ragged batch, ResourceExhausted if memory is short (the gradient arena is then incomplete:
// zero it), Internal otherwise.
class Model {
 public:
  // `spec` is resolved (no zero sizes) and `layout` made from it. `gradients` is on the device of
  // `parameters`; null if the model is not trained. Both arenas outlive the model.
  static absl::StatusOr<std::unique_ptr<Model>> Create(const ModelSpec& spec, const ModelLayout& layout,
                                                       const ModelOptions& options, Arena& parameters,
                                                       Arena* gradients);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Call after the parameters were changed (optimizer, merge, fetch), all of them or a range: the
  // rounded copy is updated before the next pass. No cost in fp32.
  void ParametersChanged();
  void ParametersChanged(const ArenaRange& range);
  // The rounded copy if it is stored as bf16, in memory of the arena's device, for an optimizer
  // that writes it together with the parameters; empty otherwise.
  std::span<uint16_t> Rounded();
  // Call after writing the whole rounded copy from the present parameters: the next pass then does not update it.
  void RoundedWritten();

  // The sum of the loss over the batch (length T + 1: T inputs, T targets), and gradients += scale * d(sum) /
  // d(parameters). A non-finite loss is returned unchanged; the gradients are then non-finite too.
  absl::StatusOr<LossSum> ForwardBackward(const TokenBatch& batch, double scale);
  // ForwardBackward in two parts, so that passes on a GPU follow each other without waits: each pass adds its
  // loss to a sum on the device. TakeLoss returns and clears the sum; ForgetLoss discards it after failed passes.
  absl::Status AddForwardBackward(const TokenBatch& batch, double scale);
  absl::StatusOr<LossSum> TakeLoss();
  absl::Status ForgetLoss();
  // Prepares a pass with fixed memory for tokens and loss, so that its work can be recorded once
  // and replayed for other tokens (worker/device/pass_graph.h): for batches of this shape, with
  // this scale. Replaces an earlier fixed pass. Unimplemented if passes do not use autograd.
  absl::Status OpenFixedPass(uint32_t sequences, uint32_t length, double scale);
  void CloseFixedPass();
  // Copies the batch to its place and counts its targets. Call before each RunFixedPass and each replay of it.
  absl::Status FillFixedPass(const TokenBatch& batch);
  // As AddForwardBackward, for the copied batch.
  absl::Status RunFixedPass();
  // During passes with gradients, `told` is called, on the caller's thread or one of LibTorch's, with the offset of
  // each range of Gradients() that is complete for the pass. Empty: no calls.
  void OnGradient(std::function<void(uint64_t offset)> told);
  // The ranges of the gradient arena, roughly in the order in which a pass completes them.
  std::vector<ArenaRange> Gradients() const;
  // The loss of ForwardBackward, without gradients.
  absl::StatusOr<LossSum> ForwardLoss(const TokenBatch& batch);
  // Scores of the next token, fp32, sequences x length x vocab_size; `out` has that size.
  absl::Status Logits(const TokenBatch& batch, std::span<float> out);
  // Logits at the last position only, sequences x vocab_size.
  absl::Status LastLogits(const TokenBatch& batch, std::span<float> out);

 private:
  struct State;
  explicit Model(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace atl

#endif  // ATOLL_WORKER_MODEL_MODEL_H_
