// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/new_lines.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <ctime>

namespace atl {

int64_t WallNanosOf(const std::string& line) {
  std::tm utc{};
  const char* fraction = ::strptime(line.c_str(), "%Y-%m-%dT%H:%M:%S", &utc);
  constexpr int kLastYear = 2200 - 1900;  // limit of nanoseconds in 64 bits
  if (fraction == nullptr || *fraction != '.' || utc.tm_year < 70 || utc.tm_year > kLastYear) return 0;
  int64_t milliseconds = 0;
  for (int i = 1; i <= 3; ++i) {
    if (std::isdigit(static_cast<unsigned char>(fraction[i])) == 0) return 0;
    milliseconds = 10 * milliseconds + (fraction[i] - '0');
  }
  return (static_cast<int64_t>(::timegm(&utc)) * 1000 + milliseconds) * 1'000'000;
}

std::vector<std::string> NewLines::Of(const std::vector<std::string>& lines) {
  // The answer begins with the lines already returned, without those that did not fit or that the
  // ring has dropped.
  auto first = told_.begin();
  const auto begins_with = [&lines](auto from, auto end) {
    const auto count = static_cast<size_t>(end - from);
    return count <= lines.size() && std::equal(from, end, lines.begin());
  };
  while (!begins_with(first, told_.end())) ++first;
  std::vector<std::string> fresh(lines.begin() + (told_.end() - first), lines.end());
  if (lines.empty()) return fresh;
  told_ = lines;
  if (const int64_t newest = WallNanosOf(lines.back()); newest > 0) since_wall_nanos_ = newest;
  std::erase_if(told_, [this](const std::string& line) { return WallNanosOf(line) < since_wall_nanos_; });
  return fresh;
}

}  // namespace atl
