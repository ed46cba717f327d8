// SPDX-License-Identifier: Apache-2.0
// Finds the known word nearest to a mistyped one.
#ifndef ATOLL_COMMON_CONFIG_NEAREST_WORD_H_
#define ATOLL_COMMON_CONFIG_NEAREST_WORD_H_

#include <cstddef>
#include <string>
#include <vector>

namespace atl {

// Least number of insertions, deletions, replacements and swaps of neighbours from `a` to `b`, both cut to 64 bytes.
size_t EditDistance(const std::string& a, const std::string& b);

// Returns the word of `known` with the smallest distance (the first of several), or "". Ignores a word if the
// distance is more than 1 and more than a third of the longer word's length, if no character would stay, or if both
// words have up to three letters and different first letters.
std::string NearestWord(const std::string& word, const std::vector<std::string>& known);

// "; did you mean 'x'?" or nothing.
std::string DidYouMean(const std::string& word, const std::vector<std::string>& known);

}  // namespace atl

#endif  // ATOLL_COMMON_CONFIG_NEAREST_WORD_H_
