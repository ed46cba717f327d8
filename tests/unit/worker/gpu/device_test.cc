// Training and copies of the worker on a real GPU: the CPU form is what they are compared with.
#include <algorithm>
#include <numeric>

#include "gtest/gtest.h"
#include "tests/unit/worker/gpu/loss_after.h"
#include "tests/unit/worker/gpu/opened_plugin.h"

namespace atl {
namespace {

TEST(GpuDevice, TrainsOnTheGpuAsOnTheCpu) {
  if (Plugin().device_count == 0) GTEST_SKIP() << "no GPU here: " << Plugin().reason;
  const auto cpu = LossAfter(5, {}), gpu = LossAfter(5, {.gpu = true});
  ASSERT_TRUE(cpu.ok() && gpu.ok()) << cpu.status() << gpu.status();
  EXPECT_NEAR(*cpu, *gpu, 1e-3);
}

TEST(GpuDevice, TrainsWithItsOwnKernelsAndFeed) {
  if (Plugin().device_count == 0) GTEST_SKIP() << "no GPU here: " << Plugin().reason;
  const auto device = OpenGpuDevice(Plugin().table, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  ASSERT_NE((*device)->step_kernels(), nullptr);
  const auto feed = (*device)->OpenFeed(TokenBytes(TinyJob()));
  ASSERT_TRUE(feed.ok()) << feed.status();
  const auto cpu = LossAfter(5, {}), gpu = LossAfter(5, {.gpu = true}, (*device)->step_kernels(), feed->get());
  ASSERT_TRUE(cpu.ok() && gpu.ok()) << cpu.status() << gpu.status();
  EXPECT_NEAR(*cpu, *gpu, 1e-3);
}

TEST(GpuDevice, AFeedBringsEveryPiece) {
  if (Plugin().device_count == 0) GTEST_SKIP() << "no GPU here: " << Plugin().reason;
  const auto device = OpenGpuDevice(Plugin().table, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  ASSERT_TRUE(ATOLL_GPU_HAS(Plugin().table, feed_to_device));
  constexpr size_t kPieces = 9, kPiece = 100'003;
  const auto arena = Arena::Create(kPieces * kPiece, {.gpu = true});
  ASSERT_TRUE(arena.ok()) << arena.status();
  {
    const auto feed = (*device)->OpenFeed(kPiece * sizeof(float));
    ASSERT_TRUE(feed.ok()) << feed.status();
    std::vector<float> values(kPiece);
    for (size_t piece = 0; piece < kPieces; ++piece) {
      std::fill(values.begin(), values.end(), static_cast<float>(piece + 1));
      void* const to = (*arena)->memory().data() + piece * kPiece;
      ASSERT_TRUE((*feed)->Put(std::as_bytes(std::span(values)), to, nullptr).ok());
    }
  }
  std::vector<float> got(kPieces * kPiece);
  ASSERT_TRUE((*arena)->Read(0, got).ok());
  for (size_t i = 0; i < got.size(); ++i) {
    const size_t piece = i / kPiece;
    ASSERT_EQ(got[i], static_cast<float>(piece + 1)) << i;
  }
}

TEST(GpuDevice, WindowsCopyBothWays) {
  if (Plugin().device_count == 0) GTEST_SKIP() << "no GPU here: " << Plugin().reason;
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
