// SPDX-License-Identifier: Apache-2.0
#include "worker/island/gpu_island.h"

#include <poll.h>

#include <array>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/island/spoke.h"

namespace atl {
namespace {

constexpr Duration kLook = Milliseconds(250);  // of the watch thread
constexpr int kLooksAtALostRank = 4;           // failed looks of the watch thread, before it ends exchanges itself
constexpr int kPollsBetweenLooks = 64;         // polls of the group between two looks at the clock and the spokes
constexpr int kPollsWithoutPause = 2000;       // about a millisecond
constexpr long kPauseNanos = 100'000;

void Pause(int polls) {
  if (polls < kPollsWithoutPause) return std::this_thread::yield();
  const timespec pause{0, kPauseNanos};
  ::ppoll(nullptr, 0, &pause, nullptr);
}

// Returns the group's key: rank 0 creates it and broadcasts it over TCP.
absl::StatusOr<GroupKey> ShareKey(TcpIsland& ranks, Device& device) {
  GroupKey key{};
  if (ranks.rank() == 0) {
    ATOLL_ASSIGN_OR_RETURN(key, device.NewGroupKey());
  }
  std::array<float, sizeof(GroupKey) / sizeof(float)> carrier;  // carries bytes only; nothing is added to them
  std::memcpy(carrier.data(), key.data(), key.size());
  ATOLL_RETURN_IF_ERROR(ranks.Broadcast(carrier, nullptr));
  std::memcpy(key.data(), carrier.data(), key.size());
  return key;
}

absl::StatusOr<std::unique_ptr<DeviceGroup>> MeetDevices(TcpIsland& ranks, Device& device) {
  ATOLL_ASSIGN_OR_RETURN(const GroupKey key, ShareKey(ranks, device));
  return device.JoinGroup(key, ranks.rank(), ranks.world());
}

// Ends a group on a separate thread. Waits for it at most `limit`; after that the thread is abandoned.
void EndWithin(Duration limit, std::unique_ptr<DeviceGroup> group) {
  struct Ending {
    Mutex mutex;
    CondVar changed;
    bool done ATOLL_GUARDED_BY(mutex) = false;
  };
  const auto ending = std::make_shared<Ending>();
  std::thread([ending, group = std::move(group)]() mutable {
    group.reset();
    MutexLock lock(ending->mutex);
    ending->done = true;
    ending->changed.NotifyAll();
  }).detach();
  MutexLock lock(ending->mutex);
  if (!ending->done) ending->changed.WaitFor(ending->mutex, limit);
}

}  // namespace

GpuIsland::GpuIsland(TcpIsland& ranks, std::unique_ptr<DeviceGroup> group, const Clock& clock, Duration let_go)
    : ranks_(ranks), clock_(clock), let_go_(let_go), group_(std::move(group)), watch_([this] { Watch(); }) {}

GpuIsland::~GpuIsland() {
  EndGroup();
  MutexLock lock(mutex_);
  over_ = true;
  changed_.NotifyAll();
}

absl::StatusOr<std::unique_ptr<GpuIsland>> GpuIsland::Join(TcpIsland& ranks, Device& device, const Clock& clock,
                                                           Duration let_go) {
  std::array<double, 1> gpus = {device.info().kind == DeviceKind::kCuda ? 1.0 : 0.0};
  ATOLL_RETURN_IF_ERROR(ranks.AllReduceSum(gpus));
  if (gpus[0] == 0) return nullptr;
  if (gpus[0] != ranks.world()) {
    return absl::FailedPreconditionError(absl::StrCat("of the ", ranks.world(), " ranks of the island ", gpus[0],
                                                      " have a GPU; give all the same --device, gpu or cpu"));
  }
  auto group = MeetDevices(ranks, device);
  if (!group.ok()) {
    ranks.Break(std::string(group.status().message()));  // no effect if already broken
    return ranks.state();
  }
  auto island = std::unique_ptr<GpuIsland>(new GpuIsland(ranks, *std::move(group), clock, let_go));
  ATOLL_RETURN_IF_ERROR(island->Settle());
  return island;
}

absl::Status GpuIsland::AllReduceMean(std::span<float> values, void* compute_stream) {
  return Begin(&DeviceGroup::BeginMean, values, compute_stream);
}

absl::Status GpuIsland::Broadcast(std::span<float> values, void* compute_stream) {
  ATOLL_RETURN_IF_ERROR(Begin(&DeviceGroup::BeginBroadcast, values, compute_stream));
  return Settle();
}

absl::Status GpuIsland::Begin(Exchange exchange, std::span<float> values, void* compute_stream) {
  ATOLL_RETURN_IF_ERROR(Await(GroupState::kRunning));
  bytes_ += values.size_bytes();
  absl::Status begun = absl::InternalError("the exchange in progress was aborted");
  {
    MutexLock lock(mutex_);
    if (group_ != nullptr) begun = (group_.get()->*exchange)(values, compute_stream);
    under_way_ = begun.ok();
  }
  if (begun.ok()) return begun;
  return End(ranks_.Lose(absl::StrCat("rank ", rank(), ": ", begun.message())));
}

absl::Status GpuIsland::Settle() {
  ATOLL_RETURN_IF_ERROR(Await(GroupState::kIdle));
  bytes_ = 0;
  ranks_.Exchanged();
  MutexLock lock(mutex_);
  under_way_ = false;
  return absl::OkStatus();
}

absl::Status GpuIsland::Await(GroupState state) {
  ATOLL_RETURN_IF_ERROR(ranks_.state());
  const Instant began = clock_.Now(), until = ranks_.PatienceFor(bytes_);
  const auto doing = [&] {
    return absl::StrCat("rank ", rank(), " waited ", Spoken(clock_.Now() - began), " for exchanges of ", bytes_,
                        " bytes between devices");
  };
  for (int polls = 1;; ++polls) {
    const auto now = Poll();
    if (!now.ok()) return End(ranks_.Lose(absl::StrCat("rank ", rank(), ": ", now.status().message())));
    if (*now >= state) return absl::OkStatus();
    if (polls % kPollsBetweenLooks == 0) {
      if (absl::Status lost = ranks_.Heed(until, doing); !lost.ok()) return End(std::move(lost));
    }
    Pause(polls);
  }
}

absl::StatusOr<GroupState> GpuIsland::Poll() {
  MutexLock lock(mutex_);
  if (group_ == nullptr) return absl::InternalError("the exchange in progress was aborted");
  return group_->Poll();
}

void GpuIsland::EndGroup() {
  std::unique_ptr<DeviceGroup> ended;
  {
    MutexLock lock(mutex_);
    ended = std::move(group_);
  }
  if (ended != nullptr) EndWithin(let_go_, std::move(ended));
}

absl::Status GpuIsland::End(absl::Status cause) {
  EndGroup();
  return cause;
}

void GpuIsland::Watch() {
  MutexLock lock(mutex_);
  for (int lost = 0; !over_;) {
    changed_.WaitFor(mutex_, kLook);
    lost = under_way_ && group_ != nullptr && !ranks_.Look().ok() ? lost + 1 : 0;
    if (lost < kLooksAtALostRank) continue;
    mutex_.Unlock();
    EndGroup();
    mutex_.Lock();
  }
}

}  // namespace atl
