// SPDX-License-Identifier: Apache-2.0
// The plugin on a machine with or without a GPU: it reports which, and the CPU works in both cases.
// Tests that need a GPU are in the other files of this folder.
#include <array>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/gpu/loss_after.h"
#include "tests/unit/worker/gpu/opened_plugin.h"

namespace atl {
namespace {

using testing::HasSubstr;

// A set-up may omit the wheels of CUDA's libraries.
bool LibrariesAreMissing() {
  return Plugin().table == nullptr && Plugin().reason.find("cannot open shared object file") != std::string::npos;
}

TEST(GpuPlugin, SaysWhatItSees) {
  if (LibrariesAreMissing()) GTEST_SKIP() << Plugin().reason << "; scripts/setup installs CUDA's libraries";
  ASSERT_NE(Plugin().table, nullptr) << Plugin().reason;
  EXPECT_EQ(Plugin().table->revision, ATOLL_GPU_ABI_REVISION);
  EXPECT_TRUE(ATOLL_GPU_HAS(Plugin().table, turn)) << "the newest entry";
  EXPECT_EQ(Plugin().reason.empty(), Plugin().device_count > 0);
  if (Plugin().device_count > 0) return;
  EXPECT_THAT(Plugin().reason, HasSubstr("cudaGetDeviceCount: "));
  const auto device = OpenDevice(Plugin(), "auto");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->info().kind, DeviceKind::kCpu);
  EXPECT_TRUE(absl::IsUnavailable(OpenDevice(Plugin(), "cuda").status()));
}

TEST(GpuPlugin, RefusesMissingDevices) {
  if (LibrariesAreMissing()) GTEST_SKIP() << Plugin().reason << "; scripts/setup installs CUDA's libraries";
  EXPECT_TRUE(OpenGpuPlugin(PluginPath() + ".none").reason.find("no GPU plugin") != std::string::npos);
  ASSERT_NE(Plugin().table, nullptr) << Plugin().reason;
  atoll_gpu_context* context = nullptr;
  EXPECT_NE(Plugin().table->device_open(99, &context), 0);
  EXPECT_EQ(context, nullptr);
  char text[8];
  Plugin().table->last_error(text, sizeof text);
  EXPECT_STREQ(text, "cudaSet");  // truncated to fit
}

TEST(GpuPlugin, CpuStillWorksWithThePlugin) {
  static_cast<void>(Plugin());
  const auto first = LossAfter(1, {}), later = LossAfter(20, {});
  ASSERT_TRUE(first.ok() && later.ok()) << first.status() << later.status();
  EXPECT_LT(*later, *first);
  if (Plugin().device_count > 0) return;
  EXPECT_TRUE(absl::IsFailedPrecondition(LossAfter(1, {.gpu = true}).status()));
}

TEST(GpuPlugin, MakesKeysOfGroupsWithoutADevice) {
  if (Plugin().table == nullptr) GTEST_SKIP() << Plugin().reason;
  atoll_gpu_group_key first{}, second{};
  if (Plugin().table->group_key(&first) != 0) {  // needs a network interface for NCCL to listen on
    std::array<char, 512> why{};
    Plugin().table->last_error(why.data(), why.size());
    ASSERT_NE(why[0], '\0') << "a failure has its sentence";
    GTEST_SKIP() << why.data();
  }
  ASSERT_EQ(Plugin().table->group_key(&second), 0);
  EXPECT_NE(std::to_array(first.bytes), std::to_array(second.bytes));
}

}  // namespace
}  // namespace atl
