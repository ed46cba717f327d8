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

TEST_F(HostMemory, IsWhatTheKernelSays) { EXPECT_EQ(*AvailableHostMemory(root_), 800u * 1024); }

TEST_F(HostMemory, IsWhatTheCgroupLeaves) {
  Put("/proc/self/cgroup", "0::/a/b\n");
  Put("/sys/fs/cgroup/a/b/memory.max", "500000\n");
  Put("/sys/fs/cgroup/a/b/memory.current", "300000\n");
  Put("/sys/fs/cgroup/a/b/memory.stat", "anon 1\ninactive_file 100000\n");
  EXPECT_EQ(*AvailableHostMemory(root_), 300000u);
  Put("/sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(*AvailableHostMemory(root_), 800u * 1024);
}

TEST_F(HostMemory, SaysWhenItCannotTell) {
  Put("/proc/meminfo", "nothing\n");
  EXPECT_TRUE(absl::IsInternal(AvailableHostMemory(root_).status()));
}

}  // namespace
}  // namespace atl
