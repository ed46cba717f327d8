// SPDX-License-Identifier: Apache-2.0
#include "common/plan/worker_memory.h"

#include <algorithm>

#include "common/base/check.h"

namespace atl {
namespace {

constexpr uint64_t kFloat = sizeof(float), kBfloat16 = 2;

// Bytes of the residual: fp32 with feedback, its int8 encoding with loco (worker/replica/error_store.h).
uint64_t ErrorMemoryBytes(ErrorMemory kind, uint64_t elements, WireSize wire_size) {
  switch (kind) {
    case ErrorMemory::kOff: return 0;
    case ErrorMemory::kFeedback: return kFloat * elements;
    case ErrorMemory::kLoco: return wire_size(CodecKind::kInt8, elements);
  }
  ATOLL_CHECK(false, "an error memory outside the enumeration");
}

uint64_t WorkingCopyBytes(const WorkerMemoryJob& job, const WorkerMemoryDevice& device) {
  if (!job.bf16) return 0;
  return job.parameters * (device.gpu || device.bf16_products ? kBfloat16 : kFloat);
}

// Bytes that a GPU which forms contributions (worker/device/device_encoder.h) needs for the largest fragment: on both
// sides the encoding and its block sums, on the GPU also local parameters, outer copy and (feedback) the residual.
struct FormingBytes {
  uint64_t gpu = 0, host = 0;
};
FormingBytes FormingBytesOf(const WorkerMemoryJob& job, const WorkerMemoryDevice& device, WireSize wire_size) {
  if (!device.gpu || !device.forms || job.upload_error_memory == ErrorMemory::kLoco) return {};
  constexpr uint64_t kSumBlock = 4096, kSums = 24;
  const uint64_t n = job.largest_fragment;
  const uint64_t formed = wire_size(job.upload_codec, n) + (n + kSumBlock - 1) / kSumBlock * kSums;
  const uint64_t arenas = job.upload_error_memory == ErrorMemory::kFeedback ? 3 : 2;
  return {arenas * kFloat * n + formed, formed};
}

// Bytes of the parameters under evaluation: on a GPU a separate fp32 copy, with bf16 also a second working copy.
uint64_t EvaluatedBytes(const WorkerMemoryJob& job, const WorkerMemoryDevice& device) {
  if (!job.evaluates) return 0;
  return (device.gpu ? kFloat * job.parameters : 0) + WorkingCopyBytes(job, device);
}

}  // namespace

WorkerMemoryJob WorkerMemoryJobOf(const JobSpec& spec, const ModelLayout& layout) {
  WorkerMemoryJob job;
  job.parameters = layout.elements;
  for (const FragmentInfo& fragment : layout.fragments)
    job.largest_fragment = std::max(job.largest_fragment, fragment.elements);
  job.bf16 = spec.model.precision == Precision::kBf16;
  job.adamw = spec.inner.kind == InnerOptimizerSpec::Kind::kAdamW;
  job.upload_codec = spec.sync.upload_codec;
  job.download_codec = spec.sync.download_codec;
  job.upload_error_memory = spec.sync.upload_error_memory;
  job.evaluates = true;  // at least the first and the last parameters
  return job;
}

std::vector<WorkerMemoryItem> WorkerMemoryItems(const WorkerMemoryJob& job, const WorkerMemoryDevice& device,
                                                WireSize wire_size) {
  ATOLL_CHECK(job.largest_fragment <= job.parameters, "a fragment is a part of the model");
  const MemoryPlace trained = device.gpu ? MemoryPlace::kGpu : MemoryPlace::kHost, host = MemoryPlace::kHost;
  const uint64_t arena = kFloat * job.parameters;
  const uint64_t residual = ErrorMemoryBytes(job.upload_error_memory, job.parameters, wire_size);
  const FormingBytes forming = FormingBytesOf(job, device, wire_size);
  using Item = MemoryItem;
  using Phase = MemoryPhase;
  std::vector<WorkerMemoryItem> items = {
      {Item::kParameters, trained, Phase::kAlways, arena},
      {Item::kGradients, trained, Phase::kAlways, arena},
      {Item::kMoments, trained, Phase::kAlways, job.adamw ? 2 * arena : 0},
      {Item::kWorkingCopy, trained, Phase::kAlways, WorkingCopyBytes(job, device)},
      {Item::kOuterCopy, host, Phase::kAlways, arena},
      {Item::kWindows, host, Phase::kAlways, device.gpu ? arena : 0},
      {Item::kSnapshot, host, Phase::kAlways, device.gpu ? 0 : kFloat * job.largest_fragment},
      {Item::kResidual, host, Phase::kAlways, residual},
      {Item::kForming, MemoryPlace::kGpu, Phase::kAlways, forming.gpu},
      {Item::kFormed, host, Phase::kAlways, forming.host},
      {Item::kKeptDownload, host, Phase::kAlways, kFloat * job.largest_fragment},
      {Item::kPendingResidual, host, Phase::kUnderWay, residual},
      {Item::kContribution, host, Phase::kUnderWay, wire_size(job.upload_codec, job.parameters)},
      {Item::kUpdates, host, Phase::kUnderWay, wire_size(job.download_codec, job.parameters - job.largest_fragment)},
      {Item::kChange, host, Phase::kBetween, kFloat * job.largest_fragment},
      {Item::kEvaluated, trained, Phase::kBetween, EvaluatedBytes(job, device)}};
  std::erase_if(items, [](const WorkerMemoryItem& item) { return item.bytes == 0; });
  return items;
}

uint64_t BytesOf(const std::vector<WorkerMemoryItem>& items, MemoryItem item) {
  for (const WorkerMemoryItem& i : items) {
    if (i.item == item) return i.bytes;
  }
  return 0;
}

uint64_t HeldBytes(const std::vector<WorkerMemoryItem>& items, MemoryPlace place) {
  uint64_t sum = 0;
  for (const WorkerMemoryItem& i : items) {
    if (i.place == place && i.phase != MemoryPhase::kBetween) sum += i.bytes;
  }
  return sum;
}

uint64_t BetweenBytes(const std::vector<WorkerMemoryItem>& items, MemoryPlace place) {
  uint64_t most = 0;
  for (const WorkerMemoryItem& i : items) {
    if (i.place == place && i.phase == MemoryPhase::kBetween) most = std::max(most, i.bytes);
  }
  return most;
}

}  // namespace atl
