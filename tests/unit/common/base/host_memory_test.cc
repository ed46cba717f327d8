// SPDX-License-Identifier: Apache-2.0
#include "common/base/host_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace atl {
namespace {

class HostMemory : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/atoll_memory_" + std::to_string(getpid());
    std::filesystem::create_directories(root_ + "/proc/self");
    std::filesystem::create_directories(root_ + "/sys/fs/cgroup/a/b");
    Put("/proc/meminfo", "MemTotal:       1000 kB\nMemFree: 3 kB\nMemAvailable:   800 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Put(const std::string& path, const std::string& text) { std::ofstream(root_ + path) << text; }
  std::string root_;
};

TEST_F(HostMemory, EqualsTheKernelsValue) { EXPECT_EQ(*AvailableHostMemory(root_), 800u * 1024); }

TEST_F(HostMemory, EqualsTheRestOfTheCgroup) {
  Put("/proc/self/cgroup", "0::/a/b\n");
  Put("/sys/fs/cgroup/a/b/memory.max", "500000\n");
  Put("/sys/fs/cgroup/a/b/memory.current", "300000\n");
  Put("/sys/fs/cgroup/a/b/memory.stat", "anon 1\ninactive_file 100000\n");
  EXPECT_EQ(*AvailableHostMemory(root_), 300000u);
  Put("/sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(*AvailableHostMemory(root_), 800u * 1024);
}

// The limit is the smallest of all groups above, as for a slice with a limit and services without
// one.
TEST_F(HostMemory, AGroupAboveCountsToo) {
  Put("/proc/self/cgroup", "0::/a/b\n");
  Put("/sys/fs/cgroup/a/b/memory.max", "max\n");
  Put("/sys/fs/cgroup/a/b/memory.current", "1000\n");
  Put("/sys/fs/cgroup/a/memory.max", "500000\n");
  Put("/sys/fs/cgroup/a/memory.current", "450000\n");
  EXPECT_EQ(*AvailableHostMemory(root_), 50'000u);
  EXPECT_EQ(MemoryLimitBytes(root_), 500'000u);
  Put("/sys/fs/cgroup/memory.max", "300000\n");  // a container sees its own group as the root
  EXPECT_EQ(MemoryLimitBytes(root_), 300'000u);
}

TEST_F(HostMemory, IsWhatACgroupOfVersionOneLeaves) {
  Put("/proc/self/cgroup", "5:devices:/x\n4:cpu,memory:/a/b\n0::/\n");
  EXPECT_EQ(MemoryLimitBytes(root_), 1000u * 1024);
  std::filesystem::create_directories(root_ + "/sys/fs/cgroup/memory/a/b");
  Put("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  Put("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "400000\n");
  EXPECT_EQ(MemoryLimitBytes(root_), 1000u * 1024) << "that number is none";
  EXPECT_EQ(*AvailableHostMemory(root_), 800u * 1024);
  Put("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "600000\n");
  Put("/sys/fs/cgroup/memory/a/b/memory.stat", "inactive_file 1\ntotal_inactive_file 100000\n");
  EXPECT_EQ(MemoryLimitBytes(root_), 600'000u);
  EXPECT_EQ(*AvailableHostMemory(root_), 300'000u);
}

// Docker names the host's path and mounts the container's own group.
TEST_F(HostMemory, AContainerOfVersionOneSeesItsOwnGroup) {
  Put("/proc/self/cgroup", "4:memory:/docker/0123\n");
  std::filesystem::create_directories(root_ + "/sys/fs/cgroup/memory");
  Put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "600000\n");
  Put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "500000\n");
  EXPECT_EQ(MemoryLimitBytes(root_), 600'000u);
  EXPECT_EQ(*AvailableHostMemory(root_), 100'000u);
}

TEST_F(HostMemory, ReportsAnUnknownValue) {
  Put("/proc/meminfo", "nothing\n");
  EXPECT_EQ(MemoryLimitBytes(root_), 0u);
  EXPECT_TRUE(absl::IsInternal(AvailableHostMemory(root_).status()));
}

}  // namespace
}  // namespace atl
