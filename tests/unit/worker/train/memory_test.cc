// SPDX-License-Identifier: Apache-2.0
#include "worker/train/memory.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>

#include "gtest/gtest.h"
#include "worker/train/trainer.h"

namespace atl {
namespace {

JobSpec Job() {
  JobSpec job;
  job.model.vocab_size = 8192;
  job.model.intermediate_size = 688;
  job.model.layers = 6;
  job.model.heads = job.model.kv_heads = 8;
  job.model.head_dim = 32;
  job.data.sequence_length = 256;
  job.batch.sequences_per_step = 32;
  return job;
}

ModelLayout LayoutOf(const JobSpec& job) { return MakeModelLayout(job.model, FragmentPattern::kWhole, 1); }

TEST(EstimateTrainingMemory, CountsArenasExactly) {
  JobSpec job = Job();
  const ModelLayout layout = LayoutOf(job);
  const TrainingMemory m = EstimateTrainingMemory(job, layout, {}, 1);
  EXPECT_EQ(m.parameter_bytes, layout.elements * 4);
  EXPECT_EQ(m.moment_bytes, layout.elements * 8);
  EXPECT_EQ(m.working_copy_bytes, 0u);
  job.inner.kind = InnerOptimizerSpec::Kind::kSgd;
  job.model.precision = Precision::kBf16;
  EXPECT_EQ(EstimateTrainingMemory(job, layout, {}, 1).moment_bytes, 0u);
  EXPECT_EQ(EstimateTrainingMemory(job, layout, {.gpu = true}, 1).working_copy_bytes, layout.elements * 2);
  EXPECT_EQ(EstimateTrainingMemory(job, layout, {}, 1).working_copy_bytes,
            layout.elements * (CpuMultipliesBf16() ? 2 : 4));
}

TEST(EstimateTrainingMemory, SeparatesHostAndGpu) {
  const JobSpec job = Job();
  const ModelLayout layout = LayoutOf(job);
  const TrainingMemory cpu = EstimateTrainingMemory(job, layout, {}, 1);
  const TrainingMemory gpu = EstimateTrainingMemory(job, layout, {.gpu = true}, 1);
  EXPECT_EQ(cpu.host_total(), 0u);
  // One fragment in fp32: outer copy, contribution, a download's buffer; on a CPU a snapshot, on a
  // GPU the windows and a change.
  EXPECT_EQ(cpu.sync_bytes, layout.elements * 16);
  EXPECT_EQ(gpu.host_total(), layout.elements * 20);
  EXPECT_EQ(cpu.total(), layout.elements * 32 + std::max(cpu.activation_bytes, layout.elements * 4));
  EXPECT_EQ(gpu.total(), layout.elements * 16 + std::max(gpu.activation_bytes, layout.elements * 4));
}

TEST(EstimateTrainingMemory, ChecksTheHostOfAGpu) {
  const JobSpec job = Job();
  const ModelLayout layout = LayoutOf(job);
  const TrainingMemory gpu = EstimateTrainingMemory(job, layout, {.gpu = true}, 1);
  EXPECT_TRUE(CheckHostMemory(gpu, gpu.host_total() / 9 * 10 + 100).ok());
  const absl::Status refused = CheckHostMemory(gpu, gpu.host_total());
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_NE(refused.message().find("of host memory, but"), std::string::npos) << refused;
  EXPECT_TRUE(CheckHostMemory(EstimateTrainingMemory(job, layout, {}, 1), 0).ok()) << "a CPU's is looked at elsewhere";
}

TEST(EstimateTrainingMemory, ActivationsGrowWithTheMicroBatch) {
  const JobSpec job = Job();
  const ModelLayout layout = LayoutOf(job);
  const uint64_t gpu = EstimateTrainingMemory(job, layout, {.gpu = true}, 1).activation_bytes;
  EXPECT_EQ(EstimateTrainingMemory(job, layout, {.gpu = true}, 4).activation_bytes, 4 * gpu);
  const uint64_t one = EstimateTrainingMemory(job, layout, {}, 1).activation_bytes;
  const uint64_t two = EstimateTrainingMemory(job, layout, {}, 2).activation_bytes;
  const uint64_t four = EstimateTrainingMemory(job, layout, {}, 4).activation_bytes;
  EXPECT_EQ(two, 2 * one);   // 512 tokens
  EXPECT_LT(four, 2 * two);  // no more scores
  EXPECT_GT(four, 3 * two / 2);
}

// Launched passes and evaluations have separate memory.
TEST(EstimateTrainingMemory, ARecordingKeepsItsActivations) {
  const JobSpec job = Job();
  const ModelLayout layout = LayoutOf(job);
  const TrainingMemory launched = EstimateTrainingMemory(job, layout, {.gpu = true}, 4);
  const TrainingMemory recorded = EstimateTrainingMemory(job, layout, {.gpu = true}, 4, Passes::kRecorded);
  EXPECT_EQ(recorded.total(), launched.total() + launched.activation_bytes);
  EXPECT_EQ(recorded.host_total(), launched.host_total());
  const uint64_t room = launched.total() / 9 * 10 + 1000;
  EXPECT_EQ(*ChooseMicroBatch(job, layout, {.gpu = true}, room), 4u);
  EXPECT_LT(*ChooseMicroBatch(job, layout, {.gpu = true}, room, Passes::kRecorded), 4u);
  const auto fits = ChoosePasses(job, layout, {.gpu = true}, room, Passes::kRecorded);
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_EQ(fits->passes, Passes::kRecorded);
  EXPECT_TRUE(fits->recording_refused.ok());
  const uint64_t one = EstimateTrainingMemory(job, layout, {.gpu = true}, 1).total() / 9 * 10 + 1000;
  const auto launches = ChoosePasses(job, layout, {.gpu = true}, one, Passes::kRecorded);
  ASSERT_TRUE(launches.ok()) << launches.status();
  EXPECT_EQ(launches->passes, Passes::kLaunched);
  EXPECT_EQ(launches->micro_batch, 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(launches->recording_refused)) << launches->recording_refused;
  const auto none = ChooseMicroBatch(job, layout, {.gpu = true}, 1 << 20, Passes::kRecorded);
  EXPECT_NE(none.status().message().find("of their recording"), absl::string_view::npos) << none.status();
}

TEST(EstimateTrainingMemory, ALargeVocabularyIsJudgedSomeRowsAtATime) {
  JobSpec job = Job();
  job.model.vocab_size = 128'256;
  const ModelLayout layout = LayoutOf(job);
  const auto activations = [&](uint32_t micro_batch) {
    return EstimateTrainingMemory(job, layout, {.gpu = true}, micro_batch).activation_bytes;
  };
  const uint64_t scores = uint64_t{16} * job.data.sequence_length * job.model.vocab_size * sizeof(float);
  EXPECT_LT(activations(32) - activations(16), scores) << "beside the blocks nothing grows any more";
}

TEST(ChooseMicroBatch, StopsAtThePassLimit) {
  const JobSpec job = Job();
  const ModelLayout layout = LayoutOf(job);
  EXPECT_EQ(*ChooseMicroBatch(job, layout, {}, uint64_t{64} << 30), 16u);             // 4,096 tokens
  EXPECT_EQ(*ChooseMicroBatch(job, layout, {.gpu = true}, uint64_t{64} << 30), 32u);  // all of the step
}

TEST(ChooseMicroBatch, HalvesUntilItFits) {
  const JobSpec job = Job();
  const ModelLayout layout = LayoutOf(job);
  const uint64_t four = EstimateTrainingMemory(job, layout, {}, 4).total();
  EXPECT_EQ(*ChooseMicroBatch(job, layout, {}, four / 9 * 10 + 1000), 4u);
  const uint64_t one = EstimateTrainingMemory(job, layout, {}, 1).total();
  EXPECT_EQ(*ChooseMicroBatch(job, layout, {}, one / 9 * 10 + 1000), 1u);
  const auto none = ChooseMicroBatch(job, layout, {}, one);
  EXPECT_TRUE(absl::IsResourceExhausted(none.status()));
}

TEST(ChooseMicroBatch, TakesTheJobsOwn) {
  JobSpec job = Job();
  job.batch.micro_batch = 24;
  EXPECT_EQ(*ChooseMicroBatch(job, LayoutOf(job), {}, uint64_t{64} << 30), 24u);
  EXPECT_TRUE(absl::IsResourceExhausted(ChooseMicroBatch(job, LayoutOf(job), {}, uint64_t{1} << 28).status()));
}

// A figure of /proc/self/status in bytes.
uint64_t OwnBytes(const std::string& key) {
  std::ifstream in("/proc/self/status");
  std::string word;
  uint64_t kib = 0;
  while (in >> word) {
    if (word == key && in >> kib) return kib * 1024;
  }
  return 0;
}

std::unique_ptr<Trainer> MakeTrainer(const JobSpec& job, const Clock& clock) {
  TrainerOptions options;
  options.available_bytes = uint64_t{64} << 30;
  options.threads = 1;
  const ModelLayout layout = LayoutOf(job);
  auto trainer = Trainer::Create(job, layout, options, clock);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  InitialParameters(layout, 1, 0, (*trainer)->parameters().host());
  return *std::move(trainer);
}

TEST(EstimateTrainingMemory, IsNearWhatAStepTakes) {
  JobSpec job = Job();
  job.batch.sequences_per_step = 4;
  const SystemClock clock;
  const auto trainer = MakeTrainer(job, clock);
  for (Arena* arena : {&trainer->gradients(), trainer->first_moments(), trainer->second_moments()}) {
    std::fill(arena->host().begin(), arena->host().end(), 0.0f);  // untouched zeros of a fresh mapping take no memory
  }
  std::ofstream("/proc/self/clear_refs") << "5";  // resets the peak
  const uint64_t before = OwnBytes("VmRSS:");
  const std::vector<int32_t> tokens(4 * 257, 1);
  ASSERT_TRUE(trainer->Step({.tokens = tokens, .sequences = 4}, 1e-3).ok());
  const double measured = static_cast<double>(OwnBytes("VmHWM:") - before);
  const double estimate = static_cast<double>(trainer->memory().activation_bytes);
  EXPECT_LT(measured, 1.3 * estimate);
  EXPECT_GT(measured, 0.5 * estimate);
}

// Without activations: the memory that the C library has allocated for a trainer, in either
// precision, within 1 %.
TEST(EstimateTrainingMemory, IsWhatATrainerHolds) {
  const SystemClock clock;
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    JobSpec job = Job();
    job.model.precision = precision;
    static_cast<void>(MakeTrainer(job, clock));  // makes one-time allocations
    const struct mallinfo2 before = mallinfo2();
    const auto trainer = MakeTrainer(job, clock);
    const struct mallinfo2 after = mallinfo2();
    const double held = static_cast<double>(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd);
    const TrainingMemory& says = trainer->memory();
    const double sum =
        static_cast<double>(says.parameter_bytes + says.gradient_bytes + says.moment_bytes + says.working_copy_bytes);
    EXPECT_NEAR(held, sum, 0.01 * sum);
  }
}

// Limits the address space so that memory suffices for a smaller pass, but not for a pass of all
// samples.
TEST(Trainer, HalvesTheMicroBatchWhenMemoryRunsOut) {
  JobSpec job = Job();
  job.model.layers = 1;
  job.batch.sequences_per_step = 16;
  const SystemClock clock;
  const auto trainer = MakeTrainer(job, clock);
  ASSERT_EQ(trainer->micro_batch(), 16u);
  job.batch.micro_batch = 16;  // the job insists
  const auto stubborn = MakeTrainer(job, clock);
  const std::vector<int32_t> tokens(16 * 257, 1), one(257, 1);
  ASSERT_TRUE(trainer->Step({.tokens = one, .sequences = 1}, 1e-3).ok());  // makes one-time allocations
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  rlimit cut = before;
  cut.rlim_cur = OwnBytes("VmSize:") + trainer->memory().activation_bytes / 2;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &cut), 0);
  const auto report = trainer->Step({.tokens = tokens, .sequences = 16}, 1e-3);
  const auto refused = stubborn->Step({.tokens = tokens, .sequences = 16}, 1e-3);
  setrlimit(RLIMIT_AS, &before);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->applied);
  EXPECT_LT(report->micro_batch, 16u);
  EXPECT_GE(report->micro_batch, 1u);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  EXPECT_NE(refused.status().message().find("batch.micro_batch"), std::string::npos);
}

}  // namespace
}  // namespace atl
