// SPDX-License-Identifier: Apache-2.0
// A worker's memory in bytes per parameter, by option and place.
#include "common/plan/worker_memory.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

// Whole bytes per element; a byte for the block formats.
uint64_t Size(CodecKind codec, uint64_t elements) {
  return elements * (codec == CodecKind::kFp32 ? 4 : codec == CodecKind::kBf16 ? 2 : 1);
}

constexpr uint64_t kN = 1000;  // parameters, in four fragments of one size

WorkerMemoryJob Job() {
  WorkerMemoryJob job;
  job.parameters = kN;
  job.largest_fragment = kN / 4;
  return job;
}

uint64_t Held(const WorkerMemoryJob& job, const WorkerMemoryDevice& device, MemoryPlace place) {
  return HeldBytes(WorkerMemoryItems(job, device, &Size), place);
}

TEST(WorkerMemory, OnACpuAllIsTheHosts) {
  const WorkerMemoryJob job = Job();
  // Parameters, gradients, moments, outer copy; a contribution; three updates and the buffer of the
  // fourth; a snapshot.
  EXPECT_EQ(Held(job, {.gpu = false}, MemoryPlace::kHost), kN * (20 + 4 + 3 + 1 + 1));
  EXPECT_EQ(Held(job, {.gpu = false}, MemoryPlace::kGpu), 0u);
}

TEST(WorkerMemory, GpuContainsTheTrainedModel) {
  WorkerMemoryJob job = Job();
  EXPECT_EQ(Held(job, {.gpu = true}, MemoryPlace::kGpu), kN * 16);
  EXPECT_EQ(Held(job, {.gpu = true}, MemoryPlace::kHost), kN * (4 + 4 + 4 + 3 + 1));  // with windows
  job.adamw = false;
  job.bf16 = true;
  EXPECT_EQ(Held(job, {.gpu = true}, MemoryPlace::kGpu), kN * (8 + 2));
}

TEST(WorkerMemory, TheRoundedCopyIsOfTwoOrFourBytes) {
  WorkerMemoryJob job = Job();
  const auto copy = [&job](const WorkerMemoryDevice& device) {
    return BytesOf(WorkerMemoryItems(job, device, &Size), MemoryItem::kWorkingCopy);
  };
  EXPECT_EQ(copy({.gpu = false, .bf16_products = true}), 0u);
  job.bf16 = true;
  EXPECT_EQ(copy({.gpu = false, .bf16_products = true}), 2 * kN);
  EXPECT_EQ(copy({.gpu = false, .bf16_products = false}), 4 * kN);
  EXPECT_EQ(copy({.gpu = true, .bf16_products = false}), 2 * kN);
}

TEST(WorkerMemory, ErrorMemoryIsHeldTwiceWhileAContributionIsUnderWay) {
  WorkerMemoryJob job = Job();
  const uint64_t off = Held(job, {}, MemoryPlace::kHost);
  job.upload_error_memory = ErrorMemory::kFeedback;
  EXPECT_EQ(Held(job, {}, MemoryPlace::kHost), off + 8 * kN);
  job.upload_error_memory = ErrorMemory::kLoco;
  EXPECT_EQ(Held(job, {}, MemoryPlace::kHost), off + 2 * kN);
}

TEST(WorkerMemory, AGpuThatFormsContributionsHoldsOneFragment) {
  WorkerMemoryJob job = Job();
  constexpr WorkerMemoryDevice kHost = {.gpu = true}, kForms = {.gpu = true, .forms = true};
  const auto more = [&](MemoryPlace place) { return Held(job, kForms, place) - Held(job, kHost, place); };
  EXPECT_EQ(more(MemoryPlace::kGpu), kN / 4 * (4 + 4 + 4) + 24);  // local and outer, fp32 bytes, block sums
  EXPECT_EQ(more(MemoryPlace::kHost), kN / 4 * 4 + 24);
  job.upload_error_memory = ErrorMemory::kFeedback;
  job.upload_codec = CodecKind::kMxfp4;
  EXPECT_EQ(more(MemoryPlace::kGpu), kN / 4 * (12 + 1) + 24);
  job.upload_error_memory = ErrorMemory::kLoco;
  EXPECT_EQ(more(MemoryPlace::kGpu), 0u);
  EXPECT_EQ(more(MemoryPlace::kHost), 0u);
  EXPECT_EQ(Held(job, {.gpu = false, .forms = true}, MemoryPlace::kHost), Held(job, {}, MemoryPlace::kHost));
}

TEST(WorkerMemory, BetweenStepsTheLargestItemCounts) {
  WorkerMemoryJob job = Job();
  EXPECT_EQ(BetweenBytes(WorkerMemoryItems(job, {.gpu = false}, &Size), MemoryPlace::kHost), kN);  // of one fragment
  job.evaluates = true;
  EXPECT_EQ(BetweenBytes(WorkerMemoryItems(job, {.gpu = false}, &Size), MemoryPlace::kHost), kN);  // read in place
  EXPECT_EQ(BetweenBytes(WorkerMemoryItems(job, {.gpu = true}, &Size), MemoryPlace::kGpu), 4 * kN);
  job.bf16 = true;
  EXPECT_EQ(BetweenBytes(WorkerMemoryItems(job, {.gpu = true}, &Size), MemoryPlace::kGpu), 6 * kN);
  EXPECT_EQ(BetweenBytes(WorkerMemoryItems(job, {.gpu = false}, &Size), MemoryPlace::kHost), 2 * kN);
}

}  // namespace
}  // namespace atl
