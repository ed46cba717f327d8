// The plugin on a machine with or without a GPU: each says what it is, and the CPU goes on either way.
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/gpu/opened_plugin.h"
#include "worker/train/trainer.h"

namespace atl {
namespace {

using testing::HasSubstr;

// The wheels of CUDA's libraries may be left out of a set-up.
bool LibrariesAreMissing() {
  return Plugin().table == nullptr && Plugin().reason.find("cannot open shared object file") != std::string::npos;
}

JobSpec TinyJob() {
  JobSpec job;
  job.model = {.vocab_size = 64,
               .hidden_size = 32,
               .intermediate_size = 64,
               .layers = 2,
               .heads = 4,
               .kv_heads = 2,
               .head_dim = 8};
  job.data.sequence_length = 16;
  job.batch.sequences_per_step = 2;
  return job;
}

std::vector<int32_t> Tokens() {
  std::vector<int32_t> tokens(2 * 17);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 7 % 64);
  return tokens;
}

absl::StatusOr<double> LossAfter(int steps, TensorDevice device, StepKernels* kernels = nullptr) {
  const JobSpec job = TinyJob();
  const ModelLayout layout = MakeModelLayout(job.model, FragmentPattern::kWhole, 1);
  const SystemClock clock;
  TrainerOptions options;
  options.device = device;
  options.kernels = kernels;
  options.available_bytes = uint64_t{1} << 30;
  ATOLL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(job, layout, options, clock));
  ATOLL_RETURN_IF_ERROR(trainer->kernels_refused());
  std::vector<float> initial(layout.elements);
  InitialParameters(layout, 3, 0, initial);
  ATOLL_RETURN_IF_ERROR(trainer->parameters().Write(0, initial));
  double loss = 0;
  for (int i = 0; i < steps; ++i) {
    ATOLL_ASSIGN_OR_RETURN(const StepReport report, trainer->Step({.tokens = Tokens(), .sequences = 2}, 1e-2));
    loss = report.loss;
  }
  return loss;
}

TEST(GpuPlugin, SaysWhatItSees) {
  if (LibrariesAreMissing()) GTEST_SKIP() << Plugin().reason << "; scripts/setup installs CUDA's libraries";
  ASSERT_NE(Plugin().table, nullptr) << Plugin().reason;
  EXPECT_EQ(Plugin().table->revision, ATOLL_GPU_ABI_REVISION);
  EXPECT_TRUE(ATOLL_GPU_HAS(Plugin().table, codec_decode));
  EXPECT_EQ(Plugin().reason.empty(), Plugin().device_count > 0);
  if (Plugin().device_count > 0) return;
  EXPECT_THAT(Plugin().reason, HasSubstr("cudaGetDeviceCount: "));
  const auto device = OpenDevice(Plugin(), "auto");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->info().kind, DeviceKind::kCpu);
  EXPECT_TRUE(absl::IsUnavailable(OpenDevice(Plugin(), "cuda").status()));
}

TEST(GpuPlugin, RefusesWhatIsNotThere) {
  if (LibrariesAreMissing()) GTEST_SKIP() << Plugin().reason << "; scripts/setup installs CUDA's libraries";
  EXPECT_TRUE(OpenGpuPlugin(ATOLL_GPU_PLUGIN ".none").reason.find("no GPU plugin") != std::string::npos);
  ASSERT_NE(Plugin().table, nullptr) << Plugin().reason;
  atoll_gpu_context* context = nullptr;
  EXPECT_NE(Plugin().table->device_open(99, &context), 0);
  EXPECT_EQ(context, nullptr);
  char text[8];
  Plugin().table->last_error(text, sizeof text);
  EXPECT_STREQ(text, "cudaSet");  // cut to fit
}

TEST(GpuPlugin, TheCpuGoesOnBesideIt) {
  static_cast<void>(Plugin());
  const auto first = LossAfter(1, {}), later = LossAfter(20, {});
  ASSERT_TRUE(first.ok() && later.ok()) << first.status() << later.status();
  EXPECT_LT(*later, *first);
  if (Plugin().device_count > 0) return;
  EXPECT_TRUE(absl::IsFailedPrecondition(LossAfter(1, {.gpu = true}).status()));
}

TEST(GpuPlugin, TrainsOnTheGpuAsOnTheCpu) {
  if (Plugin().device_count == 0) GTEST_SKIP() << Plugin().reason;
  const auto cpu = LossAfter(5, {}), gpu = LossAfter(5, {.gpu = true});
  ASSERT_TRUE(cpu.ok() && gpu.ok()) << cpu.status() << gpu.status();
  EXPECT_NEAR(*cpu, *gpu, 1e-3);
}

TEST(GpuPlugin, TrainsWithItsOwnKernels) {
  if (Plugin().device_count == 0) GTEST_SKIP() << Plugin().reason;
  const auto device = OpenGpuDevice(Plugin().table, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  ASSERT_NE((*device)->step_kernels(), nullptr);
  const auto cpu = LossAfter(5, {}), gpu = LossAfter(5, {.gpu = true}, (*device)->step_kernels());
  ASSERT_TRUE(cpu.ok() && gpu.ok()) << cpu.status() << gpu.status();
  EXPECT_NEAR(*cpu, *gpu, 1e-3);
}

TEST(GpuPlugin, WindowsCopyBothWays) {
  if (Plugin().device_count == 0) GTEST_SKIP() << Plugin().reason;
  const auto device = OpenGpuDevice(Plugin().table, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  const auto arena = Arena::Create(5000, {.gpu = true});
  ASSERT_TRUE(arena.ok()) << arena.status();
  std::vector<float> values(5000);
  std::iota(values.begin(), values.end(), 1.0f);
  ASSERT_TRUE((*arena)->Write(0, values).ok());
  const auto window = (*device)->OpenWindow((*arena)->memory().subspan(1000, 3000));
  ASSERT_TRUE(window.ok()) << window.status();
  ASSERT_TRUE((*window)->Snapshot(nullptr).ok());
  ASSERT_TRUE((*window)->Wait().ok());
  EXPECT_EQ((*window)->host()[0], 1001.0f);
  for (float& v : (*window)->host()) v = -v;
  ASSERT_TRUE((*window)->WriteBack(nullptr).ok());
  ASSERT_TRUE((*window)->Wait().ok());
  ASSERT_TRUE((*arena)->Read(0, values).ok());
  EXPECT_EQ(values[999], 1000.0f);
  EXPECT_EQ(values[1000], -1001.0f);
  EXPECT_EQ(values[3999], -4000.0f);
  EXPECT_EQ(values[4000], 4001.0f);
}

}  // namespace
}  // namespace atl
