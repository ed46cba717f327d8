// SPDX-License-Identifier: Apache-2.0
#include "common/config/nearest_word.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

TEST(EditDistance, CountsEdits) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("abc", ""), 3u);
  EXPECT_EQ(EditDistance("layers", "layer"), 1u);
  EXPECT_EQ(EditDistance("submit", "sumbit"), 1u) << "a swap is one edit";
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
}

TEST(NearestWord, FindsTypingErrorsOnly) {
  const std::vector<std::string> known = {"inner_steps", "overlap_steps", "mix", "submit"};
  EXPECT_EQ(NearestWord("inner_step", known), "inner_steps");
  EXPECT_EQ(NearestWord("sumbit", known), "submit");
  EXPECT_EQ(NearestWord("mxi", known), "mix");
  EXPECT_EQ(NearestWord("banana", known), "");
  EXPECT_EQ(NearestWord("", known), "");
  EXPECT_EQ(NearestWord("x", known), "");
  EXPECT_EQ(DidYouMean("banana", known), "");
  EXPECT_EQ(DidYouMean("overlap_step", known), "; did you mean 'overlap_steps'?");
}

TEST(NearestWord, ShortWordsNeedTheSameFirstLetter) {
  EXPECT_EQ(NearestWord("cpu", {"host", "gpu"}), "");
  EXPECT_EQ(NearestWord("gpi", {"host", "gpu"}), "gpu");
  EXPECT_EQ(NearestWord("gte", {"get"}), "get");
}

TEST(NearestWord, TheFirstOfEqualsWins) { EXPECT_EQ(NearestWord("lixt", {"list", "lint"}), "list"); }

}  // namespace
}  // namespace atl
