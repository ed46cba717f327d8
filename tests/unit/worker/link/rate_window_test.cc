// SPDX-License-Identifier: Apache-2.0
#include "worker/link/rate_window.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/support/manual_clock.h"

namespace atl {
namespace {

constexpr uint64_t kMegabyte = 1'000'000;

class RateWindowTest : public testing::Test {
 protected:
  void Transfer(uint64_t bytes, Duration took) {
    const auto use = window_.Begin();
    clock_.Advance(took);
    window_.Sample(*use, bytes);
  }

  ManualClock clock_;
  RateWindow window_{clock_};
};

TEST_F(RateWindowTest, SaysNothingBelowThreeTransfers) {
  Transfer(kMegabyte, Seconds(1));
  Transfer(kMegabyte, Seconds(1));
  EXPECT_EQ(window_.BytesPerSecond(), 0u);
  Transfer(kMegabyte, Seconds(1));
  EXPECT_EQ(window_.BytesPerSecond(), kMegabyte);
}

TEST_F(RateWindowTest, IsTheBestOfTheNewestFive) {
  Transfer(4 * kMegabyte, Seconds(1));
  for (int i = 0; i < 4; ++i) Transfer(kMegabyte, Seconds(1));
  EXPECT_EQ(window_.BytesPerSecond(), 4 * kMegabyte) << "slow ones say nothing while a fast one is among them";
  Transfer(kMegabyte, Seconds(1));
  EXPECT_EQ(window_.BytesPerSecond(), kMegabyte);
  Transfer(3 * kMegabyte, Seconds(1));
  EXPECT_EQ(window_.BytesPerSecond(), 3 * kMegabyte);
}

// A round trip of 100 ms does not mean a rate of 100 kB/s.
TEST_F(RateWindowTest, SmallQuickTransfersCountOnlyUpwards) {
  for (int i = 0; i < 9; ++i) Transfer(10'000, Milliseconds(100));
  EXPECT_EQ(window_.BytesPerSecond(), 0u);
  for (int i = 0; i < 3; ++i) Transfer(10'000, Seconds(10));
  EXPECT_EQ(window_.BytesPerSecond(), 1000u) << "five seconds are no round trip";
  Transfer(10'000, Milliseconds(100));
  EXPECT_EQ(window_.BytesPerSecond(), 100'000u);
  Transfer(RateWindow::kLeastBytes - 1, Milliseconds(1));
  EXPECT_EQ(window_.BytesPerSecond(), 100'000u) << "too small to say anything";
}

// Four at once get a quarter of the link each.
TEST_F(RateWindowTest, TransfersAtTheSameTimeAreTakenForOneLink) {
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<RateWindow::Use>> uses;
    for (int i = 0; i < 4; ++i) uses.push_back(window_.Begin());
    clock_.Advance(Seconds(4));
    for (const auto& use : uses) window_.Sample(*use, kMegabyte);
  }
  EXPECT_EQ(window_.BytesPerSecond(), kMegabyte);
}

TEST_F(RateWindowTest, CancelledTransferNoLongerSharesTheLink) {
  auto cancelled = window_.Begin();
  clock_.Advance(Seconds(10));
  cancelled.reset();
  for (int i = 0; i < 3; ++i) Transfer(kMegabyte, Seconds(1));
  EXPECT_EQ(window_.BytesPerSecond(), kMegabyte);
}

}  // namespace
}  // namespace atl
