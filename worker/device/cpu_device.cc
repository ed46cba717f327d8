// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "worker/device/device.h"
#include "worker/device/island.h"

namespace atl {
namespace {

// The window is the memory itself: nothing to copy or to wait for.
class CpuWindow final : public HostWindow {
 public:
  explicit CpuWindow(std::span<float> range) : range_(range) {}
  absl::Status Snapshot(void* /*compute_stream*/) override { return absl::OkStatus(); }
  absl::Status WriteBack(void* /*compute_stream*/) override { return absl::OkStatus(); }
  absl::Status Wait() override { return absl::OkStatus(); }
  absl::StatusOr<bool> Done() override { return true; }
  std::span<float> host() override { return range_; }
  bool is_direct() const override { return true; }

 private:
  std::span<float> range_;
};

// The device's memory is host memory: Put copies the bytes before it returns.
class CpuFeed final : public HostFeed {
 public:
  explicit CpuFeed(uint64_t most_bytes) : most_bytes_(most_bytes) {}
  absl::Status Put(Bytes bytes, void* to, void* /*compute_stream*/) override {
    if (bytes.size() > most_bytes_) return TooLarge(bytes.size(), most_bytes_);
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    return absl::OkStatus();
  }

 private:
  const uint64_t most_bytes_;
};

uint64_t PagesInBytes(int name) {
  const long pages = sysconf(name);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes) : 0;
}

class CpuDevice final : public Device {
 public:
  CpuDevice() : info_{DeviceKind::kCpu, 0, "cpu", PagesInBytes(_SC_PHYS_PAGES)} {}
  const DeviceInfo& info() const override { return info_; }
  absl::StatusOr<uint64_t> FreeMemoryBytes() override { return PagesInBytes(_SC_AVPHYS_PAGES); }
  absl::StatusOr<std::unique_ptr<HostWindow>> OpenWindow(std::span<float> range) override {
    return std::unique_ptr<HostWindow>(std::make_unique<CpuWindow>(range));
  }
  absl::StatusOr<std::unique_ptr<HostFeed>> OpenFeed(uint64_t most_bytes) override {
    return std::unique_ptr<HostFeed>(std::make_unique<CpuFeed>(most_bytes));
  }
  absl::StatusOr<GroupKey> NewGroupKey() override { return NoGroups(); }
  absl::StatusOr<std::unique_ptr<DeviceGroup>> JoinGroup(const GroupKey& /*key*/, uint32_t /*rank*/,
                                                         uint32_t /*world*/) override {
    return NoGroups();
  }
  StepKernels* step_kernels() override { return nullptr; }

 private:
  static absl::Status NoGroups() { return absl::UnimplementedError("a CPU is in no group of devices"); }
  DeviceInfo info_;
};

}  // namespace

std::unique_ptr<Device> OpenCpuDevice() { return std::make_unique<CpuDevice>(); }

}  // namespace atl
