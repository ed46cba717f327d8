#include "coordinator/store/host_memory.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace atl {
namespace {

// MemTotal of /proc/meminfo, in bytes.
uint64_t MachineBytes(const std::string& root) {
  std::ifstream in(root + "/proc/meminfo");
  std::string key;
  uint64_t kib = 0;
  std::string unit;
  while (in >> key >> kib >> unit) {
    if (key == "MemTotal:") return kib << 10;
  }
  return 0;
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

uint64_t LimitIn(const std::string& directory) {
  std::ifstream in(directory + "/memory.max");
  std::string word;
  uint64_t bytes = 0;
  return in >> word && absl::SimpleAtoi(word, &bytes) ? bytes : 0;  // "max": none
}

}  // namespace

uint64_t MemoryLimitBytes(const std::string& root) {
  uint64_t limit = MachineBytes(root);
  for (std::string group = CgroupOf(root);;) {
    const uint64_t here = LimitIn(absl::StrCat(root, "/sys/fs/cgroup", group));
    if (here > 0) limit = limit == 0 ? here : std::min(limit, here);
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return limit;
    group.resize(slash);
  }
}

}  // namespace atl
