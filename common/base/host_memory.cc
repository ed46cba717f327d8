#include "common/base/host_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace atl {
namespace {

// The number after `key` in a file of "key value" lines, or the first number when `key` is empty. Nothing for a word,
// as "max", and where there is no file.
std::optional<uint64_t> NumberIn(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  std::string word;
  while (in >> word) {
    if (!key.empty() && word != key) continue;
    if (!key.empty() && !(in >> word)) break;
    uint64_t number = 0;
    if (!absl::SimpleAtoi(word, &number)) return std::nullopt;
    return number;
  }
  return std::nullopt;
}

std::optional<uint64_t> MachineBytes(const std::string& root, const std::string& key) {
  const std::optional<uint64_t> kib = NumberIn(root + "/proc/meminfo", key);
  return kib ? std::optional<uint64_t>(*kib << 10) : std::nullopt;
}

// A memory cgroup of this process or one above it. Nothing where the kernel does not say, or there is no limit.
struct Group {
  std::optional<uint64_t> limit, used;
  uint64_t cache = 0;  // of `used`, what the kernel takes back before it refuses anything
  uint64_t left() const {
    if (!limit || !used) return UINT64_MAX;
    return *limit - std::min(*limit, *used - std::min(*used, cache));
  }
};

// Version 1 writes "none" as the largest multiple of a page.
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

// All that hold for this process, in both versions. In a container of version 1 the path is the host's, which is not
// there; what is mounted is the container's own group.
std::vector<Group> GroupsOf(const std::string& root) {
  std::vector<Group> groups;
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || !parts[2].starts_with('/')) continue;
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    const bool first_version = std::ranges::find(controllers, "memory") != controllers.end();
    if (!first_version && parts[0] != "0") continue;
    const std::string mount = root + (first_version ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup");
    for (std::string path = parts[2]; !path.empty(); path.resize(path.rfind('/')))
      groups.push_back(ReadGroup(mount + path, first_version));
    groups.push_back(ReadGroup(mount, first_version));
  }
  return groups;
}

}  // namespace

uint64_t MemoryLimitBytes(const std::string& root) {
  uint64_t limit = MachineBytes(root, "MemTotal:").value_or(UINT64_MAX);
  for (const Group& group : GroupsOf(root)) limit = std::min(limit, group.limit.value_or(UINT64_MAX));
  return limit == UINT64_MAX ? 0 : limit;
}

absl::StatusOr<uint64_t> AvailableHostMemory(const std::string& root) {
  const std::optional<uint64_t> machine = MachineBytes(root, "MemAvailable:");
  if (!machine) return absl::InternalError(root + "/proc/meminfo does not say how much memory is available");
  uint64_t available = *machine;
  for (const Group& group : GroupsOf(root)) available = std::min(available, group.left());
  return available;
}

}  // namespace atl
