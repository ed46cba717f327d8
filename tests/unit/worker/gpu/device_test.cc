// SPDX-License-Identifier: Apache-2.0
// Training and the worker's copies on a real GPU, compared with the CPU.
#include <algorithm>
#include <numeric>

#include "gtest/gtest.h"
#include "tests/unit/worker/gpu/form_cases.h"
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
  ASSERT_NE((*device)->pass_kernels(), nullptr);
  const auto feed = (*device)->OpenFeed(TokenBytes(SmallJob()));
  ASSERT_TRUE(feed.ok()) << feed.status();
  const auto cpu = LossAfter(5, {}),
             gpu = LossAfter(5, {.gpu = true}, {(*device)->step_kernels(), (*device)->pass_kernels(), feed->get()}),
             bf16 = LossAfter(
                 5, {.gpu = true},
                 {(*device)->step_kernels(), (*device)->pass_kernels(), feed->get(), nullptr, Precision::kBf16});
  ASSERT_TRUE(cpu.ok() && gpu.ok() && bf16.ok()) << cpu.status() << gpu.status() << bf16.status();
  EXPECT_NEAR(*cpu, *gpu, 1e-3);
  EXPECT_NEAR(*cpu, *bf16, 2e-2 * *cpu);
}

TEST(GpuDevice, TrainsByRecordedPasses) {
  if (Plugin().device_count == 0) GTEST_SKIP() << "no GPU here: " << Plugin().reason;
  const auto device = OpenGpuDevice(Plugin().table, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  ASSERT_NE((*device)->pass_recorder(), nullptr);
  const auto feed = (*device)->OpenFeed(TokenBytes(SmallJob()));
  ASSERT_TRUE(feed.ok()) << feed.status();
  Own own{(*device)->step_kernels(), (*device)->pass_kernels(), feed->get()};
  const auto launched = LossAfter(12, {.gpu = true}, own);
  own.recorder = (*device)->pass_recorder();
  const auto played = LossAfter(12, {.gpu = true}, own);
  ASSERT_TRUE(launched.ok() && played.ok()) << launched.status() << played.status();
  EXPECT_NEAR(*launched, *played, 1e-3);
}

// As between two jobs of one worker: LibTorch caches the memory of a freed arena.
TEST(GpuDevice, MemoryOfAJobBeforeIsFreeAgain) {
  if (Plugin().device_count == 0) GTEST_SKIP() << "no GPU here: " << Plugin().reason;
  const auto device = OpenGpuDevice(Plugin().table, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  constexpr uint64_t kBytes = uint64_t{512} << 20;
  ASSERT_TRUE(Arena::Create(1024, {.gpu = true}).ok());  // memory that LibTorch takes at its first use stays allocated
  const uint64_t before = *(*device)->FreeMemoryBytes();
  {
    const auto arena = Arena::Create(kBytes / sizeof(float), {.gpu = true});
    ASSERT_TRUE(arena.ok()) << arena.status();
    EXPECT_LT(*(*device)->FreeMemoryBytes() + kBytes / 2, before);
  }
  EXPECT_GT(*(*device)->FreeMemoryBytes() + kBytes / 2, before);
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

// Compares all results to the bit, at odd sizes and offsets; the parameters may change after the
// begin.
void ExpectFormedAsOnTheHost(Device& device, CodecKind codec, size_t elements, bool with_residual) {
  const form_cases::Case c = form_cases::Random(elements, elements);
  const form_cases::Formed wanted = form_cases::ByTheHost(codec, c, with_residual);
  const auto arena = Arena::Create(elements + 3, {.gpu = true});
  ASSERT_TRUE(arena.ok()) << arena.status();
  ASSERT_TRUE((*arena)->Write(3, c.local).ok());
  const auto encoder = device.OpenEncoder({codec, elements, with_residual});
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  auto outer = (*encoder)->OpenPinned(elements), residual = (*encoder)->OpenPinned(elements),
       lost = (*encoder)->OpenPinned(elements);
  ASSERT_TRUE(outer.ok() && residual.ok() && lost.ok());
  std::ranges::copy(c.outer, (*outer)->values().begin());
  std::ranges::copy(c.residual, (*residual)->values().begin());
  const FormingPlaces places{(*outer)->values(), with_residual ? (*residual)->values() : std::span<float>(),
                             (*lost)->values()};
  ASSERT_TRUE((*encoder)->Begin((*arena)->memory().subspan(3), places, nullptr).ok());
  ASSERT_TRUE((*arena)->Zero().ok());  // as the next step would change them
  const auto formed = (*encoder)->Wait();
  ASSERT_TRUE(formed.ok()) << formed.status();
  const std::string what = std::string(CodecName(codec)) + ", " + std::to_string(elements) + " elements";
  EXPECT_TRUE(std::ranges::equal(formed->encoded, wanted.encoded)) << what;
  EXPECT_TRUE(codec_cases::BitsOfAll((*lost)->values()) == codec_cases::BitsOfAll(wanted.lost)) << what;
  ASSERT_EQ(formed->blocks.size(), wanted.sums.size());
  for (size_t b = 0; b < wanted.sums.size(); ++b) {
    EXPECT_EQ(formed->blocks[b].largest, wanted.sums[b].largest) << what << ", block " << b;
    EXPECT_EQ(formed->blocks[b].sent_squares, wanted.sums[b].sent_squares) << what << ", block " << b;
    EXPECT_EQ(formed->blocks[b].lost_squares, wanted.sums[b].lost_squares) << what << ", block " << b;
  }
}

TEST(GpuDevice, FormsContributionsAsTheHostDoes) {
  if (Plugin().device_count == 0) GTEST_SKIP() << "no GPU here: " << Plugin().reason;
  const auto device = OpenGpuDevice(Plugin().table, 0);
  ASSERT_TRUE(device.ok()) << device.status();
  for (const CodecKind codec : codec_cases::kAllCodecs) {
    for (const size_t elements : {1, 31, 129, 4095, 4096, 4097, 1'000'003}) {
      for (const bool with_residual : {false, true}) {
        ExpectFormedAsOnTheHost(**device, codec, elements, with_residual);
      }
    }
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
