// SPDX-License-Identifier: Apache-2.0
// The control groups that limit what this process may take. Reads what the kernel says; any thread.
#ifndef ATOLL_COMMON_BASE_CGROUPS_H_
#define ATOLL_COMMON_BASE_CGROUPS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace atl {

struct Cgroup {
  std::string directory;
  bool first_version = false;  // whose files have other names
};

// Those that a controller ("memory", "cpu") may limit this process by, in both versions: its own and all above. In a
// container of version 1 the path is the host's, which is not there; what is mounted is the container's own group.
// `root` stands before /proc and /sys, for tests.
std::vector<Cgroup> CgroupsOf(const std::string& controller, const std::string& root);

// The number after `key` in a file of "key value" lines, or the first number when `key` is empty. Nothing for a word,
// as "max", and where there is no file.
std::optional<uint64_t> NumberIn(const std::string& path, const std::string& key);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_CGROUPS_H_
