#include "common/base/host_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>

#include "absl/strings/numbers.h"

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

// This process's group in the unified hierarchy: "/a/b", or "" when there is none.
std::string CgroupOf(const std::string& root) {
  std::ifstream in(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind("0::", 0) == 0) return line.substr(3);
  }
  return "";
}

// What the group leaves, reclaimable page cache counted as free.
std::optional<uint64_t> LeftInCgroup(const std::string& root) {
  const std::string directory = root + "/sys/fs/cgroup" + CgroupOf(root);
  const auto limit = NumberIn(directory + "/memory.max", ""), used = NumberIn(directory + "/memory.current", "");
  if (!limit.has_value() || !used.has_value()) return std::nullopt;
  const uint64_t cache = NumberIn(directory + "/memory.stat", "inactive_file").value_or(0);
  const uint64_t held = *used - std::min(*used, cache);
  return *limit - std::min(*limit, held);
}

}  // namespace

uint64_t MemoryLimitBytes(const std::string& root) {
  uint64_t limit = MachineBytes(root, "MemTotal:").value_or(0);
  for (std::string group = CgroupOf(root);;) {
    const uint64_t here = NumberIn(absl::StrCat(root, "/sys/fs/cgroup", group, "/memory.max"), "").value_or(0);
    if (here > 0) limit = limit == 0 ? here : std::min(limit, here);
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return limit;
    group.resize(slash);
  }
}

absl::StatusOr<uint64_t> AvailableHostMemory(const std::string& root) {
  const std::optional<uint64_t> machine = MachineBytes(root, "MemAvailable:");
  if (!machine) return absl::InternalError(root + "/proc/meminfo does not say how much memory is available");
  return std::min(*machine, LeftInCgroup(root).value_or(UINT64_MAX));
}

}  // namespace atl
