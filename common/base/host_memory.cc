// SPDX-License-Identifier: Apache-2.0
#include "common/base/host_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "common/base/cgroups.h"

namespace atl {
namespace {

std::optional<uint64_t> MachineBytes(const std::string& root, const std::string& key) {
  const std::optional<uint64_t> kib = NumberIn(root + "/proc/meminfo", key);
  return kib ? std::optional<uint64_t>(*kib << 10) : std::nullopt;
}

// A memory cgroup of this process or an ancestor. Fields are nullopt when unknown or unlimited.
struct Group {
  std::optional<uint64_t> limit, used;
  uint64_t cache = 0;  // part of `used` that the kernel reclaims before it refuses memory
  uint64_t left() const {
    if (!limit || !used) return UINT64_MAX;
    return *limit - std::min(*limit, *used - std::min(*used, cache));
  }
};

// Version 1 reports "no limit" as the largest multiple of a page.
constexpr uint64_t kNoLimit = uint64_t{1} << 62;

Group ReadGroup(const std::string& directory, bool first_version) {
  Group group;
  group.limit = NumberIn(directory + (first_version ? "/memory.limit_in_bytes" : "/memory.max"), "");
  if (group.limit >= kNoLimit) group.limit.reset();
  group.used = NumberIn(directory + (first_version ? "/memory.usage_in_bytes" : "/memory.current"), "");
  group.cache =
      NumberIn(directory + "/memory.stat", first_version ? "total_inactive_file" : "inactive_file").value_or(0);
  return group;
}

std::vector<Group> GroupsOf(const std::string& root) {
  std::vector<Group> groups;
  for (const Cgroup& cgroup : CgroupsOf("memory", root))
    groups.push_back(ReadGroup(cgroup.directory, cgroup.first_version));
  return groups;
}

}  // namespace

uint64_t MemoryLimitBytes(const std::string& root) {
  uint64_t limit = MachineBytes(root, "MemTotal:").value_or(UINT64_MAX);
  for (const Group& group : GroupsOf(root)) limit = std::min(limit, group.limit.value_or(UINT64_MAX));
  for (const int resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit own{};
    if (::getrlimit(static_cast<__rlimit_resource>(resource), &own) == 0 && own.rlim_cur != RLIM_INFINITY)
      limit = std::min(limit, uint64_t{own.rlim_cur});
  }
  return limit == UINT64_MAX ? 0 : limit;
}

absl::StatusOr<uint64_t> AvailableHostMemory(const std::string& root) {
  const std::optional<uint64_t> machine = MachineBytes(root, "MemAvailable:");
  if (!machine) return absl::InternalError(root + "/proc/meminfo has no line with the available memory");
  uint64_t available = *machine;
  for (const Group& group : GroupsOf(root)) available = std::min(available, group.left());
  return available;
}

}  // namespace atl
