// SPDX-License-Identifier: Apache-2.0
// The control groups that limit this process, as reported by the kernel. Thread-safe.
#ifndef ATOLL_COMMON_BASE_CGROUPS_H_
#define ATOLL_COMMON_BASE_CGROUPS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace atl {

struct Cgroup {
  std::string directory;
  bool first_version = false;  // cgroup version 1, with other file names
};

// Returns the groups through which a controller ("memory", "cpu") may limit this process: its own
// group and all its ancestors, of versions 1 and 2. In a container with version 1 the path in /proc
// is the host's and does not exist; the mounted root is then the container's group. `root` is a
// prefix to /proc and /sys, for tests.
std::vector<Cgroup> CgroupsOf(const std::string& controller, const std::string& root);

// Returns the number after `key` in a file of "key value" lines, or the first word of the file when `key` is empty.
// nullopt for a word such as "max", for a negative number, and for a missing key or file.
std::optional<uint64_t> NumberIn(const std::string& path, const std::string& key);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_CGROUPS_H_
