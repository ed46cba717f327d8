// SPDX-License-Identifier: Apache-2.0
#include "common/plan/worker_memory.h"

#include <algorithm>
#include <array>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"

namespace atl {
namespace {

constexpr uint64_t kFloat = sizeof(float), kBfloat16 = 2;

// As in worker/sync/error_store.h: fp32, or the int8 encoding.
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

// As in worker/device/former.h: bytes of the largest fragment with its block sums, on the host and
// on the GPU. The GPU also holds its local parameters, outer copy and residual.
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

// A GPU has a separate fp32 copy. A rounded working copy, where one exists, is computed again.
uint64_t EvaluatedBytes(const WorkerMemoryJob& job, const WorkerMemoryDevice& device) {
  if (!job.evaluates) return 0;
  return (device.gpu ? kFloat * job.parameters : 0) + WorkingCopyBytes(job, device);
}

}  // namespace

const char* MemoryItemName(MemoryItem item) {
  switch (item) {
    case MemoryItem::kParameters: return "parameters";
    case MemoryItem::kGradients: return "gradients";
    case MemoryItem::kMoments: return "moments";
    case MemoryItem::kWorkingCopy: return "bf16 copy";
    case MemoryItem::kOuterCopy: return "outer copy";
    case MemoryItem::kWindows: return "pinned windows";
    case MemoryItem::kSnapshot: return "snapshot of a fragment";
    case MemoryItem::kResidual: return "residual";
    case MemoryItem::kForming: return "contribution being formed";
    case MemoryItem::kFormed: return "contribution as formed";
    case MemoryItem::kKeptDownload: return "kept download buffer";
    case MemoryItem::kPendingResidual: return "pending residual";
    case MemoryItem::kContribution: return "encoded contribution";
    case MemoryItem::kUpdates: return "encoded updates";
    case MemoryItem::kChange: return "change of the outer copy";
    case MemoryItem::kEvaluated: return "evaluated parameters";
  }
  ATOLL_CHECK(false, "an item outside the enumeration");
}

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

// ---- the table of docs/worker-memory.md ---------------------------------------------------------------------------

namespace {

constexpr uint64_t kMany = uint64_t{1} << 30;  // whole blocks of every codec

// A column: a job of four equal fragments on a device.
struct Column {
  const char* name;
  WorkerMemoryDevice device;
  WorkerMemoryJob job;
};

constexpr WorkerMemoryJob Example(bool bf16, CodecKind codec, ErrorMemory memory) {
  return {kMany, kMany / 4, bf16, true, codec, codec, memory, true};
}

constexpr std::array<Column, 7> kColumns = {{
    {"CPU, fp32, codec fp32", {false, true}, Example(false, CodecKind::kFp32, ErrorMemory::kOff)},
    {"CPU, fp32, codec mxfp4, feedback", {false, true}, Example(false, CodecKind::kMxfp4, ErrorMemory::kFeedback)},
    {"CPU without instructions for bf16, bf16, codec mxfp4, loco",
     {false, false},
     Example(true, CodecKind::kMxfp4, ErrorMemory::kLoco)},
    {"GPU, bf16, codec fp32", {true, true}, Example(true, CodecKind::kFp32, ErrorMemory::kOff)},
    {"GPU, bf16, codec bf16, feedback", {true, true}, Example(true, CodecKind::kBf16, ErrorMemory::kFeedback)},
    {"the same, contributions formed on the GPU",
     {true, true, true},
     Example(true, CodecKind::kBf16, ErrorMemory::kFeedback)},
    {"GPU, bf16, codec mxfp4, loco", {true, true}, Example(true, CodecKind::kMxfp4, ErrorMemory::kLoco)},
}};

std::string PerParameter(uint64_t bytes) {
  return bytes == 0 ? "" : absl::StrFormat("%.4g", static_cast<double>(bytes) / static_cast<double>(kMany));
}

const char* PhaseName(MemoryPhase phase) {
  switch (phase) {
    case MemoryPhase::kAlways: return "always";
    case MemoryPhase::kUnderWay: return "under way";
    case MemoryPhase::kBetween: return "between steps";
  }
  ATOLL_CHECK(false, "a phase outside the enumeration");
}

const char* PlaceName(MemoryPlace place) { return place == MemoryPlace::kGpu ? "GPU" : "host"; }

}  // namespace

std::string WorkerMemoryTable(WireSize wire_size) {
  std::string text = "| bytes a parameter | with a GPU on | when |", rule = "|---|---|---|";
  std::vector<std::vector<WorkerMemoryItem>> of_columns;
  for (const Column& column : kColumns) {
    absl::StrAppend(&text, " ", column.name, " |");
    rule += "---|";
    of_columns.push_back(WorkerMemoryItems(column.job, column.device, wire_size));
  }
  absl::StrAppend(&text, "\n", rule, "\n");
  const auto row = [&](const std::string& head, const auto& bytes_of) {
    absl::StrAppend(&text, "| ", head, " |");
    for (const auto& items : of_columns) absl::StrAppend(&text, " ", PerParameter(bytes_of(items)), " |");
    text += "\n";
  };
  // On a GPU that forms contributions or on a CPU, a job with every feature has every item.
  constexpr WorkerMemoryJob kEverything = {
      kMany, kMany / 2, true, true, CodecKind::kFp32, CodecKind::kFp32, ErrorMemory::kFeedback, true};
  std::map<MemoryItem, WorkerMemoryItem> rows;
  for (const bool gpu : {true, false}) {
    for (const WorkerMemoryItem& i : WorkerMemoryItems(kEverything, {gpu, true, gpu}, wire_size))
      rows.emplace(i.item, i);
  }
  for (const auto& [_, i] : rows) {
    row(absl::StrCat(MemoryItemName(i.item), " | ", PlaceName(i.place), " | ", PhaseName(i.phase)),
        [&row_item = i](const auto& items) { return BytesOf(items, row_item.item); });
  }
  for (const MemoryPlace place : {MemoryPlace::kGpu, MemoryPlace::kHost}) {
    row(absl::StrCat("always and under way | ", PlaceName(place), " | sum"),
        [&](const auto& items) { return HeldBytes(items, place); });
    row(absl::StrCat("or activations, if they are more | ", PlaceName(place), " | between steps"),
        [&](const auto& items) { return BetweenBytes(items, place); });
  }
  return text;
}

}  // namespace atl
