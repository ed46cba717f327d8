// SPDX-License-Identifier: Apache-2.0
#include "common/base/cgroups.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace atl {

std::vector<Cgroup> CgroupsOf(const std::string& controller, const std::string& root) {
  std::vector<Cgroup> groups;
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || !parts[2].starts_with('/')) continue;
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    const bool first_version = std::ranges::find(controllers, controller) != controllers.end();
    if (!first_version && parts[0] != "0") continue;
    const std::string mount =
        absl::StrCat(root, "/sys/fs/cgroup", first_version ? "/" : "", first_version ? controller : "");
    for (std::string path = parts[2]; !path.empty(); path.resize(path.rfind('/')))
      groups.push_back({mount + path, first_version});
    groups.push_back({mount, first_version});
  }
  return groups;
}

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

}  // namespace atl
