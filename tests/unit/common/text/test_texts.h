// SPDX-License-Identifier: Apache-2.0
// Texts for tests of tokenizers: edge cases, generated prose, and real text if $ATOLL_TEST_DATA has
// it.
#ifndef ATOLL_TESTS_UNIT_COMMON_TEXT_TEST_TEXTS_H_
#define ATOLL_TESTS_UNIT_COMMON_TEXT_TEST_TEXTS_H_

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "common/base/random.h"

namespace atl {

inline std::vector<std::string> AwkwardTexts() {
  using std::string_literals::operator""s;
  return {
      "",
      " ",
      "   ",
      " a",
      "a ",
      "a  b   c",
      "\n",
      "a\n\nb\r\n\tc",
      "Hello, world!",
      "\xe4\xbd\xa0\xe5\xa5\xbd\xef\xbc\x8c\xe4\xb8\x96\xe7\x95\x8c",  // Chinese
      "\xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82 \xd0\xbc\xd0\xb8\xd1\x80",
      "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7 emoji \xf0\x9f\x87\xa9\xf0\x9f\x87\xaa",
      "e\xcc\x81 \xc3\xa9 \xef\xac\x81 \xe2\x84\xab",  // combining, ligature, Angstrom: no normalisation
      "nul \0 bell \x07 del \x7f esc \x1b[31m"s,
      "\xef\xbb\xbf"
      "bom",
      "\xe2\x96\x81real\xe2\x96\x81U+2581",
      "\xc2\xa0nbsp\xe3\x80\x80ideographic space\xe2\x80\xaf",
      "\xef\xbf\xbd\xef\xbf\xbf\xf4\x8f\xbf\xbf noncharacters",
      "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d \xd8\xb3\xd9\x84\xd8\xa7\xd9\x85",
      "<s> </s> <unk> <0x41> <|endoftext|>",
      "1234567890 3.14159 0x7fff 1e-5",
      "int main() { return a->b ? c : d; }  // \xc2\xb5s",
      "https://example.org/a?b=c&d=%20",
      std::string(1000, 'a'),
      std::string(300, ' ') + "x",
      std::string(200, '\n'),
      "The quick brown fox jumps over the lazy dog. THE QUICK BROWN FOX."};
}

// `words` words of an artificial language with frequent and rare words, in sentences.
inline std::string MadeUpText(uint64_t seed, size_t words) {
  Rng rng(seed);
  std::vector<std::string> lexicon;
  for (int i = 0; i < 800; ++i) {
    std::string word;
    for (uint64_t n = 1 + rng.Below(4); n > 0; --n) {
      word += "bcdfghklmnprstvwz"[rng.Below(17)];
      word += "aeiouy"[rng.Below(6)];
      if (rng.Below(3) == 0) word += "nrst"[rng.Below(4)];
    }
    lexicon.push_back(word);
  }
  std::string text;
  for (size_t i = 0; i < words; ++i) {
    text += lexicon[rng.Below(1 + rng.Below(lexicon.size()))];
    text += rng.Below(12) == 0 ? ".\n" : rng.Below(15) == 0 ? ", " : " ";
    if (rng.Below(40) == 0) text += std::to_string(rng.Below(5000)) + " ";
  }
  return text;
}

// A file below $ATOLL_TEST_DATA, empty if it does not exist.
inline std::string TestData(const std::string& name) {
  const char* root = std::getenv("ATOLL_TEST_DATA");
  std::ifstream in((root ? std::string(root) : std::string(".")) + "/" + name, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_COMMON_TEXT_TEST_TEXTS_H_
