// The CPU form, the loader's reasons, and the CUDA form over a plugin that needs no GPU.
#include "worker/device/device.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/device/gpu_plugin.h"
#include "worker/device/island.h"

namespace atl {
namespace {

TEST(CpuDevice, AWindowIsTheMemoryItself) {
  const std::unique_ptr<Device> device = OpenCpuDevice();
  EXPECT_EQ(device->info().kind, DeviceKind::kCpu);
  EXPECT_EQ(device->info().name, "cpu");
  EXPECT_GT(device->info().memory_total_bytes, uint64_t{1} << 20);
  const auto free_bytes = device->FreeMemoryBytes();
  ASSERT_TRUE(free_bytes.ok());
  EXPECT_LE(*free_bytes, device->info().memory_total_bytes);

  std::vector<float> arena = {1, 2, 3, 4};
  auto window = device->OpenWindow(std::span(arena).subspan(1, 2));
  ASSERT_TRUE(window.ok());
  EXPECT_TRUE((*window)->is_direct());
  ASSERT_TRUE((*window)->Snapshot(nullptr).ok());
  EXPECT_TRUE(*(*window)->Done());
  ASSERT_TRUE((*window)->Wait().ok());
  EXPECT_EQ((*window)->host().data(), &arena[1]);
  EXPECT_EQ((*window)->host().size(), 2u);
  (*window)->host()[0] = 9;
  ASSERT_TRUE((*window)->WriteBack(nullptr).ok());
  EXPECT_EQ(arena[1], 9);
}

TEST(OpenGpuPlugin, SaysWhyThereIsNone) {
  const GpuPlugin unnamed = OpenGpuPlugin("");
  EXPECT_EQ(unnamed.table, nullptr);
  EXPECT_FALSE(unnamed.reason.empty());
  const GpuPlugin missing = OpenGpuPlugin("/nonexistent/libatoll_gpu.so");
  EXPECT_EQ(missing.table, nullptr);
  EXPECT_NE(missing.reason.find("/nonexistent/libatoll_gpu.so"), std::string::npos);
  const GpuPlugin other = OpenGpuPlugin("libz.so.1");
  EXPECT_EQ(other.table, nullptr);
  EXPECT_NE(other.reason.find("atoll_gpu_open"), std::string::npos);
}

TEST(OpenDevice, FallsBackToTheCpuOnlyWhenLeftToChoose) {
  const GpuPlugin none = OpenGpuPlugin("");
  EXPECT_EQ((*OpenDevice(none, "auto"))->info().kind, DeviceKind::kCpu);
  EXPECT_EQ((*OpenDevice(none, "cpu"))->info().kind, DeviceKind::kCpu);
  const absl::Status refused = OpenDevice(none, "cuda").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(refused.message()).find(none.reason), std::string::npos);
  EXPECT_EQ(OpenDevice(none, "tpu").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenDevice(none, "cuda:x").status().code(), absl::StatusCode::kInvalidArgument);
}

class GpuForm : public testing::Test {
 protected:
  const GpuPlugin plugin_ = OpenGpuPlugin(ATOLL_FAKE_GPU_PATH);
};

TEST_F(GpuForm, OpensDevicesByName) {
  ASSERT_NE(plugin_.table, nullptr) << plugin_.reason;
  EXPECT_EQ(plugin_.device_count, 2);
  EXPECT_EQ((*OpenDevice(plugin_, "auto"))->info().name, "Fake GPU 0");
  const auto second = OpenDevice(plugin_, "cuda:1");
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*second)->info().kind, DeviceKind::kCuda);
  EXPECT_EQ((*second)->info().index, 1);
  EXPECT_EQ((*second)->info().memory_total_bytes, 4000u);
  EXPECT_EQ(*(*second)->FreeMemoryBytes(), 1000u);
  EXPECT_EQ((*OpenDevice(plugin_, "cpu"))->info().kind, DeviceKind::kCpu);
  EXPECT_EQ(OpenDevice(plugin_, "cuda:2").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(GpuForm, AnOlderPluginIsTakenWithoutItsLaterEntries) {
  ASSERT_NE(plugin_.table, nullptr) << plugin_.reason;
  EXPECT_TRUE(ATOLL_GPU_HAS(plugin_.table, last_error));
  EXPECT_FALSE(ATOLL_GPU_HAS(plugin_.table, codec_encode));
  EXPECT_FALSE(ATOLL_GPU_HAS(plugin_.table, codec_decode));
}

TEST_F(GpuForm, AWindowIsACopyWithBothDirections) {
  const auto device = OpenDevice(plugin_, "cuda:0");
  ASSERT_TRUE(device.ok());
  std::vector<float> arena = {1, 2, 3, 4};
  auto window = (*device)->OpenWindow(std::span(arena).subspan(1, 2));
  ASSERT_TRUE(window.ok());
  EXPECT_FALSE((*window)->is_direct());
  EXPECT_TRUE(*(*window)->Done());
  ASSERT_TRUE((*window)->Snapshot(nullptr).ok());
  EXPECT_FALSE(*(*window)->Done());
  ASSERT_TRUE((*window)->Wait().ok());
  EXPECT_EQ((*window)->host()[0], 2);
  EXPECT_EQ((*window)->host()[1], 3);
  (*window)->host()[0] = 7;
  EXPECT_EQ(arena[1], 2);
  ASSERT_TRUE((*window)->WriteBack(nullptr).ok());
  ASSERT_TRUE((*window)->Wait().ok());
  EXPECT_EQ(arena, (std::vector<float>{1, 7, 3, 4}));
}

TEST_F(GpuForm, ANewCopyWaitsForTheOneBefore) {
  const auto device = OpenDevice(plugin_, "cuda:0");
  ASSERT_TRUE(device.ok());
  std::vector<float> arena = {5, 6};
  auto window = (*device)->OpenWindow(arena);
  ASSERT_TRUE(window.ok());
  ASSERT_TRUE((*window)->Snapshot(nullptr).ok());
  ASSERT_TRUE((*window)->WriteBack(nullptr).ok());  // the snapshot has come by now
  EXPECT_EQ((*window)->host()[0], 5);
  ASSERT_TRUE((*window)->Wait().ok());
}

TEST_F(GpuForm, FailuresCarryThePluginsSentence) {
  const auto device = OpenDevice(plugin_, "cuda:0");
  ASSERT_TRUE(device.ok());
  std::vector<float> large(300'000);
  const absl::Status no_memory = (*device)->OpenWindow(large).status();
  EXPECT_EQ(no_memory.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(no_memory.message()).find("the fake has only 1 MiB"), std::string::npos);
  auto window = (*device)->OpenWindow(std::span(large).first(10));
  ASSERT_TRUE(window.ok());
  int other_stream = 0;
  EXPECT_EQ((*window)->Snapshot(&other_stream).code(), absl::StatusCode::kInternal);
  EXPECT_TRUE((*window)->Wait().ok());
}

TEST(SoloIsland, LeavesValuesAsTheyAre) {
  const std::unique_ptr<Island> island = MakeSoloIsland();
  EXPECT_EQ(island->rank(), 0u);
  EXPECT_EQ(island->world(), 1u);
  std::vector<float> values = {1, -2, 3};
  EXPECT_TRUE(island->AllReduceMean(values, nullptr).ok());
  EXPECT_TRUE(island->Broadcast(values, nullptr).ok());
  EXPECT_EQ(values, (std::vector<float>{1, -2, 3}));
}

}  // namespace
}  // namespace atl
