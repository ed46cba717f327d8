// SPDX-License-Identifier: Apache-2.0
#include "common/base/spread.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

namespace atl {

void Spread(size_t count, unsigned threads, const std::function<void(size_t, size_t)>& walk) {
  const size_t parts = std::max<size_t>(1, std::min<size_t>(threads, count));
  const size_t each = count / parts, more = count % parts;  // the first `more` parts are one longer
  const auto begin = [each, more](size_t part) { return part * each + std::min(part, more); };
  std::vector<std::jthread> helpers;
  size_t part = 1;
  try {
    for (; part < parts; ++part)
      helpers.emplace_back([&walk, first = begin(part), last = begin(part + 1)] { walk(first, last); });
  } catch (const std::system_error&) {  // the system refuses more threads
  }
  walk(0, begin(1));
  for (; part < parts; ++part) walk(begin(part), begin(part + 1));
}

}  // namespace atl
