// SPDX-License-Identifier: Apache-2.0
#include "worker/train/memory.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/codec/codec.h"
#include "common/plan/worker_memory.h"
#include "worker/model/model.h"

namespace atl {
namespace {

constexpr uint64_t kCpuPassTokens = 4096;
constexpr uint64_t kGpuPassTokens = 65536;

uint64_t PassTokens(TensorDevice device) { return device.gpu ? kGpuPassTokens : kCpuPassTokens; }

// Values of a model per token of a pass.
struct Widths {
  explicit Widths(const ModelSpec& m)
      : hidden(m.hidden_size),
        query(uint64_t{m.heads} * m.head_dim),
        kv(uint64_t{m.kv_heads} * m.head_dim),
        inner(m.intermediate_size) {}
  uint64_t hidden, query, kv, inner;
};

// The values that one transformer block keeps for its backward pass under autograd, per token:
// input and normalised input of both halves with the fp32 intermediates of RMSNorm, projections
// before and after rotation, attention's output, and four times the MLP's width.
uint64_t AutogradBlockValues(const ModelSpec& m) {
  const Widths w(m);
  return 10 * w.hidden + 6 * w.query + 3 * w.kv + 4 * w.inner + (m.qk_norm ? 2 * (w.query + w.kv) : 0);
}

// Memory besides the blocks: some rows of scores, in fp32 and as a gradient, or the same bytes for
// more rows if kernels judge them in place; the gradient of the hidden states; in bf16 the gradient
// of the head before it is added.
uint64_t AutogradBytes(const ModelSpec& m, uint64_t tokens, uint64_t value) {
  const uint64_t scores = std::min<uint64_t>(tokens, static_cast<uint64_t>(ScoreRows(m.vocab_size))) * m.vocab_size;
  const uint64_t product = value == 2 ? uint64_t{m.vocab_size} * m.hidden_size * value : 0;
  return tokens * (m.layers * AutogradBlockValues(m) + 2 * m.hidden_size) * value +
         scores * (2 * sizeof(float) + 2 * value) + product;
}

// For the pass of worker/model/cpu_pass.h: the records of each block, the largest temporaries of
// one block, some rows of scores, and in bf16 the gradient of one matrix.
uint64_t CpuPassBytes(const ModelSpec& m, uint64_t tokens, uint64_t value) {
  const Widths w(m);
  const uint64_t record = 4 * w.hidden + 2 * w.query + 2 * w.kv + 3 * w.inner + (m.qk_norm ? w.query + 2 * w.kv : 0);
  const uint64_t temporary = 3 * w.hidden + std::max(w.inner, 3 * w.query + 6 * w.kv);
  const uint64_t scores = std::min<uint64_t>(tokens, kCpuScoreRows) * m.vocab_size;
  const uint64_t product = value == 2 ? uint64_t{m.vocab_size} * w.hidden : 0;
  return (tokens * (m.layers * record + temporary) + scores + product) * value;
}

std::string Size(uint64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024 ? absl::StrFormat("%.1f MiB", mib) : absl::StrFormat("%.2f GiB", mib / 1024);
}

absl::Status TooLarge(const TrainingMemory& m, uint32_t micro_batch, uint64_t available) {
  const std::string pass = micro_batch == 1
                               ? "one sample per pass needs "
                               : absl::StrCat("batch.micro_batch of ", micro_batch, " samples per pass needs ");
  const char* cure = micro_batch == 1 ? "use a smaller model or data.sequence_length, or a machine with more memory"
                                      : "use a smaller batch.micro_batch, or omit it for an automatic choice";
  return absl::ResourceExhaustedError(
      absl::StrCat("the model does not fit: ", pass, Size(m.total()), " (parameters ", Size(m.parameter_bytes),
                   ", gradients ", Size(m.gradient_bytes), ", moments ", Size(m.moment_bytes), ", bf16 copy ",
                   Size(m.working_copy_bytes), m.gpu ? "" : absl::StrCat(", synchronisation ", Size(m.sync_bytes)),
                   ", activations ", Size(std::max(m.activation_bytes, m.between_bytes)),
                   m.recorded ? absl::StrCat(" and ", Size(m.activation_bytes), " of their recording") : "", ") and ",
                   Size(available), " are free; ", cure));
}

}  // namespace

TrainingMemory EstimateTrainingMemory(const JobSpec& spec, const ModelLayout& layout, TensorDevice device,
                                      uint32_t micro_batch, Passes passes) {
  ATOLL_CHECK(micro_batch >= 1, "a pass has a sample");
  const ModelSpec& m = spec.model;
  // A CPU without bf16 products stores values rounded to bf16 as fp32.
  const bool products = device.gpu || CpuMultipliesBf16();
  const uint64_t value = m.precision == Precision::kBf16 && products ? 2 : 4;
  const uint64_t tokens = uint64_t{micro_batch} * spec.data.sequence_length;
  const auto items = WorkerMemoryItems(WorkerMemoryJobOf(spec, layout), {device.gpu, products}, &EncodedSize);
  const auto bytes = [&items](MemoryItem item) { return BytesOf(items, item); };
  TrainingMemory out;
  out.gpu = device.gpu;
  out.recorded = passes == Passes::kRecorded;
  out.parameter_bytes = bytes(MemoryItem::kParameters);
  out.gradient_bytes = bytes(MemoryItem::kGradients);
  out.moment_bytes = bytes(MemoryItem::kMoments);
  out.working_copy_bytes = bytes(MemoryItem::kWorkingCopy);
  const uint64_t trained = out.parameter_bytes + out.gradient_bytes + out.moment_bytes + out.working_copy_bytes;
  out.sync_bytes = HeldBytes(items, MemoryPlace::kHost) - (device.gpu ? 0 : trained);
  if (device.gpu) out.sync_bytes += BetweenBytes(items, MemoryPlace::kHost);
  out.between_bytes = BetweenBytes(items, device.gpu ? MemoryPlace::kGpu : MemoryPlace::kHost);
  // With separate documents, a mask of one byte per pair, and the same as a summand of the scores,
  // which autograd keeps for each layer until its backward pass.
  const uint64_t added = device.gpu ? m.layers * value : value;
  const uint64_t mask = spec.data.separate_documents ? tokens * spec.data.sequence_length * (1 + added) : 0;
  out.activation_bytes = mask + (device.gpu ? AutogradBytes(m, tokens, value) : CpuPassBytes(m, tokens, value));
  return out;
}

FormingMemory EstimateFormingMemory(const JobSpec& spec, const ModelLayout& layout) {
  const auto items = WorkerMemoryItems(WorkerMemoryJobOf(spec, layout), {.gpu = true, .forms = true}, &EncodedSize);
  return {BytesOf(items, MemoryItem::kForming), BytesOf(items, MemoryItem::kFormed)};
}

uint64_t TokenBytes(const JobSpec& spec) {
  return uint64_t{spec.batch.sequences_per_step} * (uint64_t{spec.data.sequence_length} + 1) * sizeof(int32_t);
}

absl::StatusOr<uint32_t> ChooseMicroBatch(const JobSpec& spec, const ModelLayout& layout, TensorDevice device,
                                          uint64_t available_bytes, Passes passes) {
  const auto memory = [&](uint32_t micro) { return EstimateTrainingMemory(spec, layout, device, micro, passes); };
  const uint64_t usable = available_bytes / 10 * 9;
  const uint32_t all = spec.batch.sequences_per_step;
  const uint64_t by_tokens = std::max<uint64_t>(1, PassTokens(device) / spec.data.sequence_length);
  uint32_t micro = spec.batch.micro_batch != 0
                       ? std::min(spec.batch.micro_batch, all)
                       : std::bit_floor(static_cast<uint32_t>(std::min<uint64_t>(all, by_tokens)));
  while (micro > 1 && spec.batch.micro_batch == 0 && memory(micro).total() > usable) micro /= 2;
  const TrainingMemory one = memory(spec.batch.micro_batch == 0 ? 1 : micro);
  if (one.total() > usable) return TooLarge(one, spec.batch.micro_batch == 0 ? 1 : micro, available_bytes);
  return micro;
}

absl::StatusOr<PassChoice> ChoosePasses(const JobSpec& spec, const ModelLayout& layout, TensorDevice device,
                                        uint64_t available_bytes, Passes wished) {
  PassChoice choice{.passes = wished};
  absl::StatusOr<uint32_t> micro = ChooseMicroBatch(spec, layout, device, available_bytes, wished);
  if (!micro.ok() && wished == Passes::kRecorded) {
    choice = {.passes = Passes::kLaunched, .recording_refused = micro.status()};
    micro = ChooseMicroBatch(spec, layout, device, available_bytes, choice.passes);
  }
  ATOLL_ASSIGN_OR_RETURN(choice.micro_batch, std::move(micro));
  return choice;
}

absl::Status CheckHostMemory(const TrainingMemory& memory, uint64_t available_bytes) {
  if (memory.host_total() <= available_bytes / 10 * 9) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the model does not fit the memory of the GPU's host: synchronisation needs ",
                   Size(memory.host_total()), " of host memory, but ", Size(available_bytes),
                   " are free; use a smaller model or codec, or a machine with more memory"));
}

}  // namespace atl
