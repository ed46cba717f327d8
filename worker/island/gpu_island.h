// SPDX-License-Identifier: Apache-2.0
// An island of processes with a GPU each: values go from device to device (worker/device/device_group.h), and over TCP
// goes what goes so in every island: orders, answers, a few numbers, and who has ended. An exchange between devices
// waits for a lost rank for ever; here the wait has a deadline made of sizes and rates, a rank that ends is noticed
// meanwhile, and what is under way is ended with it. Errors and causes are those of tcp_island.h.
#ifndef ATOLL_WORKER_ISLAND_GPU_ISLAND_H_
#define ATOLL_WORKER_ISLAND_GPU_ISLAND_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "worker/device/device.h"
#include "worker/device/island.h"
#include "worker/island/tcp_island.h"

namespace atl {

// Owned by one thread at a time, which is then that of `ranks` as well.
class GpuIsland final : public Island {
 public:
  // On every rank of every island at once; returns when the devices have met, null where no rank has a GPU. `ranks` and
  // `device` outlive it. FailedPrecondition on all ranks when some have one and some have not; Unavailable, and `ranks`
  // broken, when a device does not join. `let_go` is for a group to end, which may wait for its device for ever: then
  // it is left to a thread of its own, and the process is to end soon.
  static absl::StatusOr<std::unique_ptr<GpuIsland>> Join(TcpIsland& ranks, Device& device, const Clock& clock,
                                                         Duration let_go = Seconds(10));
  ~GpuIsland() override;
  GpuIsland(const GpuIsland&) = delete;
  GpuIsland& operator=(const GpuIsland&) = delete;

  uint32_t rank() const override { return ranks_.rank(); }
  uint32_t world() const override { return ranks_.world(); }
  // `values` is memory of the device. Under way until Settle.
  absl::Status AllReduceMean(std::span<float> values, void* compute_stream) override;
  absl::Status Settle() override;
  absl::Status AllReduceSum(std::span<double> values) override { return ranks_.AllReduceSum(values); }
  absl::Status Broadcast(std::span<float> values, void* compute_stream) override;
  void OnlyWait(bool only) override { ranks_.OnlyWait(only); }

 private:
  using Exchange = absl::Status (DeviceGroup::*)(std::span<float> values, void* compute_stream);

  GpuIsland(TcpIsland& ranks, std::unique_ptr<DeviceGroup> group, const Clock& clock, Duration let_go);
  absl::Status Begin(Exchange exchange, std::span<float> values, void* compute_stream) ATOLL_EXCLUDES(mutex_);
  // Until the group is in `state` or nearer to idle.
  absl::Status Await(GroupState state) ATOLL_EXCLUDES(mutex_);
  absl::StatusOr<GroupState> Poll() ATOLL_EXCLUDES(mutex_);
  // What is under way ends; no exchange begins any more.
  void EndGroup() ATOLL_EXCLUDES(mutex_);
  absl::Status End(absl::Status cause) ATOLL_EXCLUDES(mutex_);  // likewise; returns `cause`
  // Ends what is under way when rank 0 or a follower has ended, also while the owner waits for its own device.
  void Watch() ATOLL_EXCLUDES(mutex_);

  TcpIsland& ranks_;
  const Clock& clock_;
  const Duration let_go_;
  uint64_t bytes_ = 0;  // under way
  Mutex mutex_;
  CondVar changed_;
  std::unique_ptr<DeviceGroup> group_ ATOLL_GUARDED_BY(mutex_);  // null: ended
  bool under_way_ ATOLL_GUARDED_BY(mutex_) = false;
  bool over_ ATOLL_GUARDED_BY(mutex_) = false;
  std::jthread watch_;
};

// The ways between the ranks of an island: orders always go over TCP, values where the parameters lie.
struct IslandWays {
  TcpIsland& orders;
  Island& values;
};

}  // namespace atl

#endif  // ATOLL_WORKER_ISLAND_GPU_ISLAND_H_
