// SPDX-License-Identifier: Apache-2.0
// GPUs of an island with threads as ranks. Device memory is the test's own, and an exchange happens
// when the last rank has begun it. As with NCCL, an exchange completes later and waits forever for
// a lost rank.
#ifndef ATOLL_TESTS_UNIT_WORKER_ISLAND_DEVICE_OF_THREADS_H_
#define ATOLL_TESTS_UNIT_WORKER_ISLAND_DEVICE_OF_THREADS_H_

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "worker/device/device.h"

namespace atl {

// Shared by the devices of one island. Thread-safe.
class Interconnect {
 public:
  explicit Interconnect(uint32_t world)
      : begun_(world, 0), errors_(world), joined_(world, false), left_(world, false) {}

  // From now on the device reports this failure.
  void FailAt(uint32_t rank, const std::string& error) {
    const std::scoped_lock lock(mutex_);
    errors_[rank] = error;
  }
  // Groups do not end until LetGo.
  void Hold() { held_ = true; }
  void LetGo() { held_ = false; }
  bool left(uint32_t rank) const {
    const std::scoped_lock lock(mutex_);
    return left_[rank];
  }
  size_t exchanges() const {
    const std::scoped_lock lock(mutex_);
    return exchanges_.size();
  }

 private:
  friend class GroupOfThreads;
  struct Exchange {
    bool mean = false;
    std::vector<std::span<float>> values;  // by rank
    uint32_t begun = 0;
    bool done = false;
  };

  void Join(uint32_t rank) {
    const std::scoped_lock lock(mutex_);
    joined_[rank] = true;
  }
  void Leave(uint32_t rank) {
    while (held_) std::this_thread::yield();
    const std::scoped_lock lock(mutex_);
    left_[rank] = true;
  }
  bool Met() const {
    const std::scoped_lock lock(mutex_);
    return std::count(joined_.begin(), joined_.end(), true) == static_cast<ptrdiff_t>(joined_.size());
  }
  absl::Status Begin(uint32_t rank, bool mean, std::span<float> values) {
    const std::scoped_lock lock(mutex_);
    if (exchanges_.size() == begun_[rank]) exchanges_.push_back({mean, std::vector<std::span<float>>(begun_.size())});
    Exchange& exchange = exchanges_[begun_[rank]++];
    if (exchange.mean != mean) return absl::InternalError("the ranks begin different exchanges");
    exchange.values[rank] = values;
    if (++exchange.begun == begun_.size()) Finish(exchange);
    return absl::OkStatus();
  }
  static void Finish(Exchange& exchange) {
    std::vector<float> result(exchange.values[0].begin(), exchange.values[0].end());
    for (size_t rank = 1; exchange.mean && rank < exchange.values.size(); ++rank) {
      for (size_t i = 0; i < result.size(); ++i) result[i] += exchange.values[rank][i];
    }
    const auto count = static_cast<float>(exchange.values.size());
    for (float& value : result) value = exchange.mean ? value / count : value;
    for (const std::span<float> values : exchange.values) std::copy(result.begin(), result.end(), values.begin());
    exchange.done = true;
  }
  absl::StatusOr<bool> Done(uint32_t rank) const {
    const std::scoped_lock lock(mutex_);
    if (!errors_[rank].empty()) return absl::InternalError(errors_[rank]);
    for (size_t i = 0; i < begun_[rank]; ++i) {
      if (!exchanges_[i].done) return false;
    }
    return true;
  }

  std::atomic<bool> held_{false};
  mutable std::mutex mutex_;
  std::vector<size_t> begun_;  // exchanges, by rank
  std::vector<std::string> errors_;
  std::vector<bool> joined_, left_;
  std::vector<Exchange> exchanges_;
};

class GroupOfThreads final : public DeviceGroup {
 public:
  GroupOfThreads(Interconnect& interconnect, uint32_t rank) : interconnect_(interconnect), rank_(rank) {
    interconnect_.Join(rank);
  }
  ~GroupOfThreads() override { interconnect_.Leave(rank_); }

  absl::StatusOr<GroupState> Poll() override {
    ATOLL_ASSIGN_OR_RETURN(const bool done, interconnect_.Done(rank_));
    if (!interconnect_.Met() || busy_ > 0) {
      busy_ -= busy_ > 0 ? 1 : 0;
      return GroupState::kBusy;
    }
    return done ? GroupState::kIdle : GroupState::kRunning;
  }
  absl::Status BeginMean(std::span<float> values, void* /*compute_stream*/) override { return Begin(true, values); }
  absl::Status BeginBroadcast(std::span<float> values, void* /*compute_stream*/) override {
    return Begin(false, values);
  }

 private:
  absl::Status Begin(bool mean, std::span<float> values) {
    if (busy_ > 0 || !interconnect_.Met()) return absl::InternalError("begun while the group is busy");
    busy_ = 3;  // polls until the exchange has begun
    return interconnect_.Begin(rank_, mean, values);
  }

  Interconnect& interconnect_;
  const uint32_t rank_;
  int busy_ = 0;
};

class DeviceOfThreads final : public Device {
 public:
  explicit DeviceOfThreads(Interconnect& interconnect) : interconnect_(interconnect) {}
  const DeviceInfo& info() const override { return info_; }
  absl::StatusOr<uint64_t> FreeMemoryBytes() override { return uint64_t{8} << 30; }
  absl::StatusOr<std::unique_ptr<HostWindow>> OpenWindow(std::span<float> /*range*/) override {
    return absl::UnimplementedError("no windows here");
  }
  absl::StatusOr<std::unique_ptr<HostFeed>> OpenFeed(uint64_t /*most_bytes*/) override {
    return absl::UnimplementedError("no feeds here");
  }
  absl::StatusOr<GroupKey> NewGroupKey() override {
    GroupKey key;
    key.fill(std::byte{0xff});  // not a number as fp32: it must be sent as bytes
    key.back() = std::byte{1};
    return key;
  }
  absl::StatusOr<std::unique_ptr<DeviceGroup>> JoinGroup(const GroupKey& key, uint32_t rank,
                                                         uint32_t /*world*/) override {
    if (key != *NewGroupKey()) return absl::InternalError("the key is not that of rank 0");
    return std::unique_ptr<DeviceGroup>(std::make_unique<GroupOfThreads>(interconnect_, rank));
  }
  StepKernels* step_kernels() override { return nullptr; }

 private:
  Interconnect& interconnect_;
  const DeviceInfo info_{DeviceKind::kCuda, 0, "thread", uint64_t{8} << 30};
};

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_WORKER_ISLAND_DEVICE_OF_THREADS_H_
