// SPDX-License-Identifier: Apache-2.0
// An island of processes with one GPU each. Values go from device to device
// (worker/device/device_group.h). Everything else uses TCP as in every island: orders, answers, a
// few numbers, and the detection of ended ranks. A device exchange would wait for a lost rank
// forever. Here the wait has a deadline derived from sizes and rates, the end of a rank is detected
// meanwhile, and running exchanges are then ended. Errors and causes are those of tcp_island.h.
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

// Owned by one thread at a time, which then also owns `ranks`.
class GpuIsland final : public Island {
 public:
  // Called by every rank at once. Returns when the devices are connected; null if no rank has a GPU. `ranks`
  // and `device` outlive it. FailedPrecondition on all ranks if only some have a GPU. Unavailable, with `ranks`
  // broken, if a device does not join. `let_go`: the time for a group to end, because it may wait for its
  // device forever. After that it is left to its own thread, and the process should end soon.
  static absl::StatusOr<std::unique_ptr<GpuIsland>> Join(TcpIsland& ranks, Device& device, const Clock& clock,
                                                         Duration let_go = Seconds(10));
  ~GpuIsland() override;
  GpuIsland(const GpuIsland&) = delete;
  GpuIsland& operator=(const GpuIsland&) = delete;

  uint32_t rank() const override { return ranks_.rank(); }
  uint32_t world() const override { return ranks_.world(); }
  // `values` is device memory. The exchange continues after the return; Settle waits for it.
  absl::Status AllReduceMean(std::span<float> values, void* compute_stream) override;
  absl::Status Settle() override;
  absl::Status AllReduceSum(std::span<double> values) override { return ranks_.AllReduceSum(values); }
  absl::Status Broadcast(std::span<float> values, void* compute_stream) override;
  void OnlyWait(bool only) override { ranks_.OnlyWait(only); }

 private:
  using Exchange = absl::Status (DeviceGroup::*)(std::span<float> values, void* compute_stream);

  GpuIsland(TcpIsland& ranks, std::unique_ptr<DeviceGroup> group, const Clock& clock, Duration let_go);
  absl::Status Begin(Exchange exchange, std::span<float> values, void* compute_stream) ATOLL_EXCLUDES(mutex_);
  // Waits until the group is in `state`, or a state closer to idle.
  absl::Status Await(GroupState state) ATOLL_EXCLUDES(mutex_);
  absl::StatusOr<GroupState> Poll() ATOLL_EXCLUDES(mutex_);
  // Ends running exchanges, and waits for that at most let_go_; no exchange can start afterwards.
  void EndGroup() ATOLL_EXCLUDES(mutex_);
  absl::Status End(absl::Status cause) ATOLL_EXCLUDES(mutex_);  // as EndGroup; returns `cause`
  // The thread watch_: ends running exchanges once ranks_.Look() has failed for a second, whatever the owner does.
  void Watch() ATOLL_EXCLUDES(mutex_);

  TcpIsland& ranks_;
  const Clock& clock_;
  const Duration let_go_;
  uint64_t bytes_ = 0;  // of running exchanges
  Mutex mutex_;
  CondVar changed_;
  std::unique_ptr<DeviceGroup> group_ ATOLL_GUARDED_BY(mutex_);  // null: ended
  bool under_way_ ATOLL_GUARDED_BY(mutex_) = false;
  bool over_ ATOLL_GUARDED_BY(mutex_) = false;
  std::jthread watch_;
};

// The connections of an island's ranks: orders always use TCP; values use the transport of the
// parameters' memory.
struct IslandWays {
  TcpIsland& orders;
  Island& values;
};

}  // namespace atl

#endif  // ATOLL_WORKER_ISLAND_GPU_ISLAND_H_
