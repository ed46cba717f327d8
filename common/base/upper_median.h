// SPDX-License-Identifier: Apache-2.0
// The upper median of a few values: for an even number of values, the larger of the two in the
// middle. Pure.
#ifndef ATOLL_COMMON_BASE_UPPER_MEDIAN_H_
#define ATOLL_COMMON_BASE_UPPER_MEDIAN_H_

#include <algorithm>
#include <cstddef>
#include <vector>

namespace atl {

// `values` must not be empty.
template <typename T>
T UpperMedian(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_UPPER_MEDIAN_H_
