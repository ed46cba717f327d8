// SPDX-License-Identifier: Apache-2.0
// Finds the known word nearest to a mistyped one.
#ifndef ATOLL_COMMON_CONFIG_NEAREST_WORD_H_
#define ATOLL_COMMON_CONFIG_NEAREST_WORD_H_

#include <cstddef>
#include <string>
#include <vector>

namespace atl {

// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
size_t EditDistance(const std::string& a, const std::string& b);

// The first word with the smallest distance. Empty if that distance is more than a third of the
// longer word's length and more than 1, if no character would stay, or if a word of up to three
// letters would lose its first letter.
std::string NearestWord(const std::string& word, const std::vector<std::string>& known);

// "; did you mean 'x'?" or nothing.
std::string DidYouMean(const std::string& word, const std::vector<std::string>& known);

}  // namespace atl

#endif  // ATOLL_COMMON_CONFIG_NEAREST_WORD_H_
