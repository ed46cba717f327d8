// SPDX-License-Identifier: Apache-2.0
// Makes the table of docs/worker-memory.md and compares the page with it.
#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/codec/codec.h"
#include "common/plan/worker_memory.h"
#include "gtest/gtest.h"

namespace atl {
namespace {

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

// Bytes per parameter of every item by codec, error memory, precision and device, as Markdown.
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

constexpr char kBegin[] = "<!-- begin worker memory: ATOLL_WRITE_DOCS=1 replicas_memory_test writes it -->\n\n";
constexpr char kEnd[] = "\n<!-- end worker memory -->";

TEST(WorkerMemoryPage, MatchesTheFunction) {
  const std::string path = absl::StrCat(ATOLL_SOURCE_DIR, "/docs/worker-memory.md");
  std::stringstream read;
  read << std::ifstream(path, std::ios::binary).rdbuf();
  std::string page = read.str();
  const size_t begin = page.find(kBegin), end = page.find(kEnd);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos && begin < end) << "the page has no place for it";
  const size_t from = begin + sizeof(kBegin) - 1;
  const std::string wanted = WorkerMemoryTable(&EncodedSize);
  const std::string there = page.substr(from, end - from);
  if (std::getenv("ATOLL_WRITE_DOCS") != nullptr) {
    std::ofstream(path, std::ios::binary) << page.replace(from, end - from, wanted);
    return;
  }
  EXPECT_EQ(there, wanted) << "the page says how to renew it";
}

}  // namespace
}  // namespace atl
