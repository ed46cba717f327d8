// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/version_pins.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "common/plan/limits.h"

namespace atl {
namespace {

const WorkerId kA{"a"}, kB{"b"};
constexpr Instant kNow{1'000};
const Instant kLater = kNow + kPinAfterBreak;

class VersionPinsTest : public testing::Test {
 protected:
  std::optional<Version> Snapshot(uint64_t head, Instant now = kNow) { return pins_.KeptFor({head}, now).snapshot; }
  std::optional<Version> Updates(uint64_t head, Instant now = kNow) { return pins_.KeptFor({head}, now).updates_from; }
  VersionPins pins_{4};
};

TEST_F(VersionPinsTest, FilesOfAnOpenDownloadStay) {
  EXPECT_EQ(Snapshot(3), std::nullopt);
  EXPECT_EQ(Updates(3), std::nullopt);
  pins_.Begin(kA, {3});
  EXPECT_EQ(Snapshot(7, kLater + Seconds(1)), Version{3}) << "however long it takes";
  EXPECT_EQ(Updates(7, kLater + Seconds(1)), Version{3});
}

TEST_F(VersionPinsTest, FilesOfABrokenDownloadStayForAWhile) {
  const uint64_t download = pins_.Begin(kA, {3});
  pins_.End(kA, download, kNow);
  EXPECT_EQ(Snapshot(5, kLater - Nanoseconds(1)), Version{3});
  EXPECT_EQ(Snapshot(5, kLater), std::nullopt);
  EXPECT_EQ(Updates(5, kNow), std::nullopt) << "it is forgotten";
}

// The coordinator may be notified of the break after the worker has returned.
TEST_F(VersionPinsTest, AnEndThatComesLateIsNotThatOfTheNextDownload) {
  const uint64_t first = pins_.Begin(kA, {3});
  pins_.Begin(kA, {3});
  pins_.End(kA, first, kNow);
  EXPECT_EQ(Snapshot(5, kLater + Seconds(1)), Version{3});
}

TEST_F(VersionPinsTest, OutdatedDownloadIsNotPinned) {
  pins_.Begin(kA, {3});
  EXPECT_TRUE(pins_.MayGoOn({3}, {7}));
  EXPECT_FALSE(pins_.MayGoOn({3}, {8}));
  EXPECT_FALSE(pins_.MayGoOn({3}, {2})) << "not of this history";
  EXPECT_EQ(Snapshot(7), Version{3});
  EXPECT_EQ(Snapshot(8), std::nullopt);
  EXPECT_EQ(Updates(8), std::nullopt);
}

TEST_F(VersionPinsTest, TheOldestCounts) {
  pins_.Begin(kA, {5});
  pins_.Begin(kB, {4});
  EXPECT_EQ(Snapshot(6), Version{4});
  EXPECT_EQ(Updates(6), Version{4});
  EXPECT_EQ(Snapshot(9), Version{5});
  pins_.Begin(kA, {9});
  EXPECT_EQ(Snapshot(9), Version{9});
}

TEST_F(VersionPinsTest, CatchingUpPinsOnlyUnrequestedUpdates) {
  pins_.End(kA, pins_.Begin(kA, {3}), kNow);
  pins_.AskedForUpdate(kA, {4}, {7}, kNow);
  EXPECT_EQ(Snapshot(7), std::nullopt);
  EXPECT_EQ(Updates(7), Version{3}) << "that one may break";
  pins_.AskedForUpdate(kA, {6}, {7}, kNow);
  EXPECT_EQ(Updates(7), Version{4}) << "two are asked for at once";
  EXPECT_EQ(Updates(8, kLater - Nanoseconds(1)), Version{4});
  pins_.AskedForUpdate(kA, {8}, {8}, kNow);
  EXPECT_EQ(Updates(8), std::nullopt);
  pins_.AskedForUpdate(kB, {7}, {8}, kNow);
  EXPECT_EQ(Updates(8), std::nullopt) << "who fetched nothing whole has no pin";
}

TEST_F(VersionPinsTest, AreAsManyAsThereMayBeWorkers) {
  for (uint32_t i = 0; i < limits::kWorkers; ++i) pins_.Begin(WorkerId{"w" + std::to_string(i)}, {3});
  EXPECT_EQ(pins_.Begin(kA, {2}), 0u);
  EXPECT_EQ(Snapshot(4), Version{3});
  EXPECT_NE(pins_.Begin(WorkerId{"w7"}, {2}), 0u);
  EXPECT_EQ(Snapshot(4), Version{2});
}

}  // namespace
}  // namespace atl
