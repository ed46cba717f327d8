// SPDX-License-Identifier: Apache-2.0
// The Llama family over the parameter arena: RMSNorm, rotary embeddings (rotate-half, as Hugging Face), grouped-query
// attention, SwiGLU, tied or untied head. Weights are views into the arena, so nothing is copied when the optimizer or
// a merge changes them. LibTorch stays behind this header; every exception of its becomes a status. Losses and norm
// statistics are fp32; with bf16, weights are read from a copy of the arena that is rounded to bf16, and activations
// are bf16 where the device multiplies them: a CPU that does not computes with the rounded weights in fp32.
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
  bool separate_documents = false;  // attention and positions start anew after each end-of-text token
  int32_t end_of_text = -1;         // its id; -1: the tokenizer has none, which separate_documents refuses
  // Of the arenas' device, for any batch, outlives the model: tokens go by it, so that no pass waits for those before
  // it. Null: by LibTorch's own copy.
  HostFeed* feed = nullptr;
  // Likewise of the arenas' device: what passes under autograd do between products is theirs, once they were found to
  // agree with LibTorch's operators (pass_check.h). Null: by those. A pass by hand uses none.
  PassKernels* kernels = nullptr;
  // For tests, on a CPU:
  bool as_on_gpu = false;      // training by autograd
  bool bf16_products = false;  // also without instructions for them
  int64_t score_rows = 0;      // by autograd, at once; 0: as memory suggests (ScoreRows)
};

// Whether this processor has instructions for products of bf16. Without them a product in bf16 takes several times as
// long as in fp32.
bool CpuMultipliesBf16();

// Tokens whose scores are there at once in a training pass on a CPU, and on a GPU: a quarter of a gigabyte of them in
// fp32, at least 256 rows; and four times as many by kernels, which make no copies of them.
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

// Owned by one thread at a time. Every method: InvalidArgument for a token outside the vocabulary or a ragged batch,
// ResourceExhausted when memory ran out (the arena of gradients is then half done: zero it), Internal otherwise.
class Model {
 public:
  // `spec` is resolved (no zero sizes) and `layout` made from it. `gradients` may be null for a model that is never
  // trained; it lies on the same device. Both arenas outlive the model.
  static absl::StatusOr<std::unique_ptr<Model>> Create(const ModelSpec& spec, const ModelLayout& layout,
                                                       const ModelOptions& options, Arena& parameters,
                                                       Arena* gradients);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Call after the parameters were changed (optimizer, merge, fetch), all of them or a range: before the next pass the
  // rounded copy of it is brought up to date. Free of charge in fp32.
  void ParametersChanged();
  void ParametersChanged(const ArenaRange& range);
  // The rounded copy where it is held as bf16, in memory of the arena's device, for an optimizer that writes it
  // together with the parameters; empty otherwise.
  std::span<uint16_t> Rounded();
  // All of it was written, from the parameters as they are.
  void RoundedWritten();

  // The sum of the loss over the batch (length T + 1: T inputs, T targets), and gradients += scale * d(sum) /
  // d(parameters). A non-finite loss is returned as it is; the gradients are then non-finite as well.
  absl::StatusOr<LossSum> ForwardBackward(const TokenBatch& batch, double scale);
  // The same in halves, so that passes on a GPU follow each other and nobody waits in between: each adds its sum to one
  // that stays on the device until it is taken, or forgotten with passes that have failed.
  absl::Status AddForwardBackward(const TokenBatch& batch, double scale);
  absl::StatusOr<LossSum> TakeLoss();
  absl::Status ForgetLoss();
  // A pass whose tokens come from one place and whose loss goes to another, so that what it enqueues can be recorded
  // once and played for other tokens (worker/device/pass_graph.h): of batches of this shape, with this scale. It takes
  // the place of the one before. Unimplemented where passes are not autograd's.
  absl::Status OpenFixedPass(uint32_t sequences, uint32_t length, double scale);
  void CloseFixedPass();
  // The batch takes its place, and its targets are counted: one RunFixedPass, or one playing of it, follows.
  absl::Status FillFixedPass(const TokenBatch& batch);
  // As AddForwardBackward of what was filled.
  absl::Status RunFixedPass();
  // `told` hears, during ForwardBackward and in its thread, the offset of each range of Gradients() once that pass has
  // added all it has to it. Empty: nobody does.
  void OnGradient(std::function<void(uint64_t offset)> told);
  // What the arena of gradients consists of, about in the order in which a pass is through with it.
  std::vector<ArenaRange> Gradients() const;
  // The same sum without gradients.
  absl::StatusOr<LossSum> ForwardLoss(const TokenBatch& batch);
  // Scores of the next token, fp32, sequences x length x vocab_size; `out` has that size.
  absl::Status Logits(const TokenBatch& batch, std::span<float> out);
  // The same after the last position only, sequences x vocab_size.
  absl::Status LastLogits(const TokenBatch& batch, std::span<float> out);

 private:
  struct State;
  explicit Model(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace atl

#endif  // ATOLL_WORKER_MODEL_MODEL_H_
