#include "worker/train/memory.h"

#include <algorithm>
#include <bit>
#include <fstream>
#include <optional>

#include "absl/strings/str_format.h"
#include "common/base/check.h"

namespace atl {
namespace {

constexpr uint64_t kCpuPassTokens = 4096;
constexpr uint64_t kGpuPassTokens = 65536;

uint64_t PassTokens(TensorDevice device) { return device.gpu ? kGpuPassTokens : kCpuPassTokens; }

// Values that one transformer block keeps for its backward pass, per token: input and normalised input of both halves
// with the fp32 intermediates of RMSNorm, projections before and after rotation, attention's output, and four times the
// MLP's width.
uint64_t BlockValues(const ModelSpec& m) {
  const uint64_t hidden = m.hidden_size, query = uint64_t{m.heads} * m.head_dim, kv = uint64_t{m.kv_heads} * m.head_dim;
  return 10 * hidden + 6 * query + 3 * kv + 4 * uint64_t{m.intermediate_size} + (m.qk_norm ? 2 * (query + kv) : 0);
}

std::string Size(uint64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024 ? absl::StrFormat("%.1f MiB", mib) : absl::StrFormat("%.2f GiB", mib / 1024);
}

// The number after `key` in a file of "key value" lines, or the first number when `key` is empty.
std::optional<uint64_t> NumberIn(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  std::string word;
  while (in >> word) {
    if (!key.empty() && word != key) continue;
    if (!key.empty() && !(in >> word)) break;
    if (word.empty() || word.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;  // "max"
    return std::stoull(word);
  }
  return std::nullopt;
}

// What the memory cgroup (version 2) of this process leaves, reclaimable page cache counted as free.
std::optional<uint64_t> LeftInCgroup(const std::string& root) {
  std::ifstream in(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind("0::", 0) != 0) continue;
    const std::string directory = root + "/sys/fs/cgroup" + (line.size() > 4 ? line.substr(3) : std::string());
    const auto limit = NumberIn(directory + "/memory.max", ""), used = NumberIn(directory + "/memory.current", "");
    if (!limit.has_value() || !used.has_value()) return std::nullopt;
    const uint64_t cache = NumberIn(directory + "/memory.stat", "inactive_file").value_or(0);
    const uint64_t held = *used - std::min(*used, cache);
    return *limit - std::min(*limit, held);
  }
  return std::nullopt;
}

absl::Status TooLarge(const TrainingMemory& m, uint32_t micro_batch, uint64_t available) {
  const std::string pass = micro_batch == 1
                               ? "one sample a pass needs "
                               : absl::StrCat("batch.micro_batch of ", micro_batch, " samples a pass needs ");
  const char* cure = micro_batch == 1 ? "use a smaller model or data.sequence_length, or a machine with more memory"
                                      : "use a smaller batch.micro_batch, or leave it out and the worker finds one";
  return absl::ResourceExhaustedError(
      absl::StrCat("the model does not fit: ", pass, Size(m.total()), " (parameters ", Size(m.parameter_bytes),
                   ", gradients ", Size(m.gradient_bytes), ", moments ", Size(m.moment_bytes), ", bf16 copy ",
                   Size(m.working_copy_bytes), ", synchronisation ", Size(m.sync_bytes), ", activations ",
                   Size(m.activation_bytes), ") and ", Size(available), " are free; ", cure));
}

// The memory and its pending successor (worker/sync/error_store.h): fp32, or a byte and a share of a block's scale.
uint64_t ErrorMemoryBytes(ErrorMemory kind, uint64_t elements) {
  if (kind == ErrorMemory::kOff) return 0;
  return kind == ErrorMemory::kFeedback ? 2 * elements * sizeof(float) : 2 * (elements + elements / 64 + 2);
}

}  // namespace

TrainingMemory EstimateTrainingMemory(const JobSpec& spec, const ModelLayout& layout, uint32_t micro_batch) {
  ATOLL_CHECK(micro_batch >= 1, "a pass has a sample");
  const ModelSpec& m = spec.model;
  const uint64_t arena = layout.elements * sizeof(float);
  const uint64_t value = m.precision == Precision::kBf16 ? 2 : 4;
  const uint64_t tokens = uint64_t{micro_batch} * spec.data.sequence_length;
  TrainingMemory out;
  out.parameter_bytes = arena;
  out.gradient_bytes = arena;
  out.moment_bytes = spec.inner.kind == InnerOptimizerSpec::Kind::kAdamW ? 2 * arena : 0;
  out.working_copy_bytes = m.precision == Precision::kBf16 ? arena / 2 : 0;
  out.sync_bytes = 2 * arena + ErrorMemoryBytes(spec.sync.upload_error_memory,
                                                layout.elements);  // and the outer copy, encoded bytes
  // Logits, their fp32 form, log-probabilities and the gradient; a mask of one byte a pair with separate documents.
  const uint64_t head = tokens * m.vocab_size * (3 * sizeof(float) + 2 * value);
  const uint64_t mask = spec.data.separate_documents ? tokens * spec.data.sequence_length * (1 + value) : 0;
  out.activation_bytes = tokens * m.layers * BlockValues(m) * value + head + mask;
  return out;
}

absl::StatusOr<uint64_t> AvailableHostMemory(const std::string& root) {
  const std::optional<uint64_t> kib = NumberIn(root + "/proc/meminfo", "MemAvailable:");
  if (!kib.has_value()) return absl::InternalError(root + "/proc/meminfo does not say how much memory is available");
  return std::min(*kib * 1024, LeftInCgroup(root).value_or(UINT64_MAX));
}

absl::StatusOr<uint32_t> ChooseMicroBatch(const JobSpec& spec, const ModelLayout& layout, TensorDevice device,
                                          uint64_t available_bytes) {
  const uint64_t usable = available_bytes / 10 * 9;
  const uint32_t all = spec.batch.sequences_per_step;
  const uint64_t by_tokens = std::max<uint64_t>(1, PassTokens(device) / spec.data.sequence_length);
  uint32_t micro = spec.batch.micro_batch != 0
                       ? std::min(spec.batch.micro_batch, all)
                       : std::bit_floor(static_cast<uint32_t>(std::min<uint64_t>(all, by_tokens)));
  while (micro > 1 && spec.batch.micro_batch == 0 && EstimateTrainingMemory(spec, layout, micro).total() > usable) {
    micro /= 2;
  }
  const TrainingMemory one = EstimateTrainingMemory(spec, layout, spec.batch.micro_batch == 0 ? 1 : micro);
  if (one.total() > usable) return TooLarge(one, spec.batch.micro_batch == 0 ? 1 : micro, available_bytes);
  return micro;
}

}  // namespace atl
