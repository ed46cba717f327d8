// SPDX-License-Identifier: Apache-2.0
#include "common/base/host_cores.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace atl {
namespace {

class HostCores : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/atoll_cores_" + std::to_string(getpid());
    for (const char* folder : {"/proc/self", "/sys/fs/cgroup/a/b", "/sys/fs/cgroup/cpu/a"})
      std::filesystem::create_directories(root_ + folder);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Put(const std::string& path, const std::string& text) { std::ofstream(root_ + path) << text; }
  std::string root_;
  const unsigned all_ = std::max(1u, std::thread::hardware_concurrency());
};

TEST_F(HostCores, AreAllWhereNothingLimitsThem) {
  EXPECT_EQ(UsableCores(root_), all_);
  Put("/proc/self/cgroup", "0::/a/b\n");
  Put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(UsableCores(root_), all_);
  Put("/sys/fs/cgroup/a/b/cpu.max", "90000000 100000\n");
  EXPECT_EQ(UsableCores(root_), std::min(all_, 900u));
}

TEST_F(HostCores, AreWhatAQuotaAmountsTo) {
  Put("/proc/self/cgroup", "0::/a/b\n");
  Put("/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(UsableCores(root_), 1u);
  Put("/sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
  EXPECT_EQ(UsableCores(root_), std::min(all_, 2u)) << "rounded up";
  Put("/sys/fs/cgroup/a/cpu.max", "100000 100000\n");
  EXPECT_EQ(UsableCores(root_), 1u) << "a group above counts too";
}

TEST_F(HostCores, AreWhatAQuotaOfVersionOneAmountsTo) {
  Put("/proc/self/cgroup", "4:cpu,cpuacct:/a\n0::/\n");
  Put("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  Put("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(UsableCores(root_), all_);
  Put("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(UsableCores(root_), 1u);
}

}  // namespace
}  // namespace atl
