// SPDX-License-Identifier: Apache-2.0
#include "common/base/host_cores.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <thread>

#include "common/base/cgroups.h"

namespace atl {
namespace {

// The group's quota of CPU time as a number of cores, rounded up. nullopt without a limit ("max", or
// -1 in version 1).
std::optional<uint64_t> CoresOf(const Cgroup& group) {
  const std::string quota_file = group.directory + (group.first_version ? "/cpu.cfs_quota_us" : "/cpu.max");
  const std::optional<uint64_t> quota = NumberIn(quota_file, "");
  std::optional<uint64_t> period;
  if (group.first_version) {
    period = NumberIn(group.directory + "/cpu.cfs_period_us", "");
  } else if (std::ifstream in(quota_file); in) {
    std::string of_quota;
    uint64_t number = 0;
    if (in >> of_quota >> number) period = number;
  }
  if (!quota || !period || *period == 0) return std::nullopt;
  return *quota / *period + (*quota % *period > 0 ? 1 : 0);
}

}  // namespace

unsigned UsableCores(const std::string& root) {
  uint64_t cores = std::max(1u, std::thread::hardware_concurrency());
  for (const Cgroup& group : CgroupsOf("cpu", root)) cores = std::min(cores, CoresOf(group).value_or(UINT64_MAX));
  return static_cast<unsigned>(std::max<uint64_t>(1, cores));
}

}  // namespace atl
