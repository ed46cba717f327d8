// SPDX-License-Identifier: Apache-2.0
#include "common/config/nearest_word.h"

#include <algorithm>

namespace atl {
namespace {

constexpr size_t kLongestWord = 64;  // of longer words only the beginning is compared
constexpr size_t kShortWord = 3;     // words up to this length need the same first letter: cpu and gpu differ by one

}  // namespace

size_t EditDistance(const std::string& left, const std::string& right) {
  const std::string a = left.substr(0, kLongestWord), b = right.substr(0, kLongestWord);
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

std::string NearestWord(const std::string& word, const std::vector<std::string>& known) {
  std::string best;
  size_t best_distance = SIZE_MAX;
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(word, candidate);
    const size_t longer = std::max(word.size(), candidate.size());
    const bool near = distance < longer && distance <= std::max<size_t>(1, longer / 3);
    const bool starts_so = longer > kShortWord || word[0] == candidate[0];
    if (near && starts_so && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string DidYouMean(const std::string& word, const std::vector<std::string>& known) {
  const std::string nearest = NearestWord(word, known);
  return nearest.empty() ? std::string() : "; did you mean '" + nearest + "'?";
}

}  // namespace atl
