// SPDX-License-Identifier: Apache-2.0
// Exchanges between real devices: a single device, and two as ranks if the machine has them.
#include <array>
#include <thread>

#include "gtest/gtest.h"
#include "tests/unit/worker/gpu/opened_plugin.h"
#include "worker/model/arena.h"

namespace atl {
namespace {

constexpr size_t kElements = 1'000'003;

absl::Status AwaitState(DeviceGroup& group, GroupState wanted) {
  for (;;) {
    ATOLL_ASSIGN_OR_RETURN(const GroupState state, group.Poll());
    if (state >= wanted) return absl::OkStatus();
    std::this_thread::yield();
  }
}

// In a group of `world` devices: the mean of rank + 1, then rank 0's own value, at each element.
absl::Status Exchange(const GroupKey& key, uint32_t rank, uint32_t world) {
  ATOLL_ASSIGN_OR_RETURN(const auto device, OpenGpuDevice(Plugin().table, static_cast<int>(rank)));
  ATOLL_ASSIGN_OR_RETURN(const auto group, device->JoinGroup(key, rank, world));
  ATOLL_RETURN_IF_ERROR(AwaitState(*group, GroupState::kIdle));
  const TensorDevice place{true, static_cast<int32_t>(rank)};
  ATOLL_ASSIGN_OR_RETURN(const auto means, Arena::Create(kElements, place));
  ATOLL_ASSIGN_OR_RETURN(const auto copies, Arena::Create(kElements, place));
  std::vector<float> values(kElements, static_cast<float>(rank + 1));
  ATOLL_RETURN_IF_ERROR(means->Write(0, values));
  ATOLL_RETURN_IF_ERROR(copies->Write(0, values));
  ATOLL_RETURN_IF_ERROR(group->BeginMean(means->memory(), nullptr));
  ATOLL_RETURN_IF_ERROR(AwaitState(*group, GroupState::kRunning));
  ATOLL_RETURN_IF_ERROR(group->BeginBroadcast(copies->memory(), nullptr));
  ATOLL_RETURN_IF_ERROR(AwaitState(*group, GroupState::kIdle));
  ATOLL_RETURN_IF_ERROR(means->Read(0, values));
  EXPECT_EQ(values, std::vector<float>(kElements, static_cast<float>(world + 1) / 2));
  ATOLL_RETURN_IF_ERROR(copies->Read(0, values));
  EXPECT_EQ(values, std::vector<float>(kElements, 1.0F));
  return absl::OkStatus();
}

absl::StatusOr<GroupKey> NewKey() {
  ATOLL_ASSIGN_OR_RETURN(const auto device, OpenGpuDevice(Plugin().table, 0));
  return device->NewGroupKey();
}

TEST(GpuGroup, ExchangesValuesBetweenDevices) {
  const int devices = Plugin().device_count;
  if (devices == 0) GTEST_SKIP() << "no GPU here: " << Plugin().reason;
  for (const uint32_t world : {1U, 2U}) {
    if (world > static_cast<uint32_t>(devices)) GTEST_SKIP() << "one GPU here: groups of two are not tried";
    const auto key = NewKey();
    ASSERT_TRUE(key.ok()) << key.status();
    std::vector<std::jthread> ranks;
    for (uint32_t rank = 0; rank < world; ++rank) {
      ranks.emplace_back([&, rank] {
        const absl::Status status = Exchange(*key, rank, world);
        EXPECT_TRUE(status.ok()) << "rank " << rank << " of " << world << ": " << status;
      });
    }
  }
}

TEST(GpuGroup, OneBitChangesTheFingerprint) {
  if (Plugin().device_count == 0) GTEST_SKIP() << "no GPU here: " << Plugin().reason;
  const auto arena = Arena::Create(kElements, TensorDevice{true, 0});
  ASSERT_TRUE(arena.ok()) << arena.status();
  const auto zero = (*arena)->Fingerprint();
  ASSERT_TRUE(zero.ok()) << zero.status();
  const std::array<float, 1> one = {1e-30F};
  for (const uint64_t place : {uint64_t{0}, uint64_t{kElements - 1}}) {
    ASSERT_TRUE((*arena)->Write(place, one).ok());
    const auto changed = (*arena)->Fingerprint();
    ASSERT_TRUE(changed.ok()) << changed.status();
    EXPECT_NE(*changed, *zero) << "at " << place;
    ASSERT_TRUE((*arena)->Zero().ok());
    EXPECT_EQ(*(*arena)->Fingerprint(), *zero);
  }
}

}  // namespace
}  // namespace atl
