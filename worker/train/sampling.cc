// SPDX-License-Identifier: Apache-2.0
#include "worker/train/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "common/base/check.h"

namespace atl {

uint32_t DrawToken(std::span<const float> scores, double temperature, uint32_t top_k, Rng& rng) {
  ATOLL_CHECK(!scores.empty() && temperature >= 0, "there is something to draw from");
  if (temperature == 0) {
    return static_cast<uint32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  }
  std::vector<uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  const size_t kept = top_k == 0 ? order.size() : std::min<size_t>(top_k, order.size());
  const auto higher = [scores](uint32_t a, uint32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(kept), order.end(), higher);
  std::vector<double> sums(kept);
  double total = 0;
  for (size_t i = 0; i < kept; ++i) {
    total += std::exp((static_cast<double>(scores[order[i]]) - static_cast<double>(scores[order[0]])) / temperature);
    sums[i] = total;
  }
  const double drawn = rng.Uniform() * total;
  const auto at = std::upper_bound(sums.begin(), sums.end(), drawn) - sums.begin();
  return order[std::min(static_cast<size_t>(at), kept - 1)];
}

}  // namespace atl
