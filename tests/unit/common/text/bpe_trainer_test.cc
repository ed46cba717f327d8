// SPDX-License-Identifier: Apache-2.0
#include "common/text/bpe_trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/base/random.h"
#include "common/base/utf8.h"

namespace atl {
namespace {

constexpr size_t kLongestPiece = 16;  // characters

std::vector<std::string> Characters(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size(); at += Utf8Length(text[at]))
    out.push_back(text.substr(at, Utf8Length(text[at])));
  return out;
}

// The definition, slowly: counts every pair of every word again for each piece.
std::vector<std::string> TrainByDefinition(const std::vector<CountedWord>& words,
                                           const std::vector<std::string>& characters, size_t wanted) {
  std::map<std::string, size_t> ids;
  for (const std::string& character : characters) ids.emplace(character, ids.size());
  std::vector<std::vector<std::string>> parts;
  for (const CountedWord& word : words) parts.push_back(Characters(word.text));
  std::vector<std::string> made;
  while (made.size() < wanted) {
    std::map<std::pair<size_t, size_t>, uint64_t> counts;
    std::map<size_t, std::string> texts;
    for (const auto& [text, id] : ids) texts[id] = text;
    for (size_t w = 0; w < words.size(); ++w) {
      for (size_t i = 0; i + 1 < parts[w].size(); ++i) {
        const auto a = ids.find(parts[w][i]), b = ids.find(parts[w][i + 1]);
        if (a == ids.end() || b == ids.end()) continue;
        if (Characters(a->first + b->first).size() <= kLongestPiece) counts[{a->second, b->second}] += words[w].count;
      }
    }
    const auto best = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == counts.end() || best->second < 2) break;
    const std::string left = texts[best->first.first], right = texts[best->first.second];
    if (ids.emplace(left + right, ids.size()).second) made.push_back(left + right);
    for (auto& word : parts) {
      std::vector<std::string> joined;
      for (size_t i = 0; i < word.size(); ++i) {
        const bool here = i + 1 < word.size() && word[i] == left && word[i + 1] == right;
        joined.push_back(here ? left + right : word[i]);
        i += here ? 1 : 0;
      }
      word = joined;
    }
  }
  return made;
}

std::vector<CountedWord> RandomWords(uint64_t seed, const std::vector<std::string>& alphabet, size_t words,
                                     size_t longest) {
  Rng rng(seed);
  std::map<std::string, uint64_t> counts;
  for (size_t i = 0; i < words; ++i) {
    std::string word;
    for (uint64_t n = 1 + rng.Below(longest); n > 0; --n) word += alphabet[rng.Below(alphabet.size())];
    counts[word] += 1 + rng.Below(3);
  }
  std::vector<CountedWord> out;
  for (const auto& [text, count] : counts) out.push_back({text, count});
  return out;
}

std::vector<std::string> Train(std::vector<CountedWord> words, const std::vector<std::string>& characters,
                               size_t wanted) {
  return BpeTrainer(std::move(words), characters).Run(wanted, [](size_t) {});
}

TEST(BpeTrainer, GivesThePiecesOfTheDefinition) {
  const std::vector<std::string> two = {"a", "b"}, more = {"a", "b", "c", "\xc3\xa4", "\xe4\xbd\xa0"};
  for (uint64_t seed = 0; seed < 30; ++seed) {
    for (const auto& alphabet : {two, more}) {
      const auto words = RandomWords(seed, alphabet, 20 + seed, 3 + 2 * seed);
      EXPECT_EQ(Train(words, alphabet, 60), TrainByDefinition(words, alphabet, 60)) << "seed " << seed;
      const std::vector<std::string> few(alphabet.begin() + 1, alphabet.end());  // one is left to the bytes
      EXPECT_EQ(Train(words, few, 60), TrainByDefinition(words, few, 60)) << "seed " << seed;
    }
  }
  const std::vector<CountedWord> runs = {{std::string(200, 'a'), 1}, {std::string(7, 'a'), 3}, {"aab", 2}};
  EXPECT_EQ(Train(runs, two, 30), TrainByDefinition(runs, two, 30)) << "overlapping occurrences";
}

TEST(BpeTrainer, OrderOfWordsDoesNotMatter) {
  auto words = RandomWords(5, {"a", "b", "c"}, 200, 30);
  const auto pieces = Train(words, {"a", "b", "c"}, 200);
  std::reverse(words.begin(), words.end());
  EXPECT_EQ(Train(words, {"a", "b", "c"}, 200), pieces);
}

TEST(BpeTrainer, ReportsEveryPiece) {
  std::vector<size_t> reported;
  BpeTrainer trainer(RandomWords(5, {"a", "b"}, 50, 20), {"a", "b"});
  const auto pieces = trainer.Run(10, [&](size_t made) { reported.push_back(made); });
  ASSERT_EQ(pieces.size(), 10u);
  ASSERT_EQ(reported.size(), 10u);
  EXPECT_EQ(reported.front(), 1u);
  EXPECT_EQ(reported.back(), 10u);
}

// Text without spaces: distinct words of the maximum length, over a large alphabet.
uint64_t OperationsFor(size_t words) {
  std::vector<std::string> alphabet;
  for (char32_t c = 0; c < 400; ++c) AppendUtf8(0x4e00 + c, alphabet.emplace_back());
  Rng rng(3);
  std::vector<std::string> lexicon(500);
  for (std::string& entry : lexicon) {
    for (uint64_t n = 1 + rng.Below(4); n > 0; --n) entry += alphabet[rng.Below(alphabet.size())];
  }
  std::vector<CountedWord> text(words);
  for (CountedWord& word : text) {
    word.count = 1;
    while (word.text.size() < 256) word.text += lexicon[rng.Below(lexicon.size())];
  }
  BpeTrainer trainer(std::move(text), alphabet);
  EXPECT_EQ(trainer.Run(600, [](size_t) {}).size(), 600u);
  return trainer.operations();
}

TEST(BpeTrainer, WorkGrowsWithTheTextAlone) {
  const uint64_t small = OperationsFor(200), large = OperationsFor(1600);
  EXPECT_LT(large, 9 * small) << "eight times the text";
  EXPECT_LT(large, uint64_t{8} * 1600 * 90) << "a few operations for each of some 90 characters a word";
}

}  // namespace
}  // namespace atl
