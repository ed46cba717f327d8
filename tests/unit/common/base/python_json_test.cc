// SPDX-License-Identifier: Apache-2.0
#include "common/base/python_json.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

std::string Strict(const std::string& text) {
  const StrictJson json = StrictJsonOf(text);
  EXPECT_EQ(json.text.size(), text.size()) << "places stay the same";
  return json.text;
}

TEST(PythonJson, NumbersBeyondTheStandardBecomeObjects) {
  EXPECT_EQ(Strict(R"({"a": NaN, "b": [Infinity,-Infinity]})"), R"({"a": {} , "b": [{}      ,{}       ]})");
  EXPECT_EQ(Strict(R"([1e400, -1e400, 1e308, 1e-400, -0.5e+3])"), R"([{}   , {}    , 1e308, 1e-400, -0.5e+3])");
  const std::string digits(400, '7');
  EXPECT_EQ(Strict(digits), "{}" + std::string(398, ' '));
  EXPECT_EQ(Strict(R"({"NaN": "Infinity 1e400 \" NaN"})"), R"({"NaN": "Infinity 1e400 \" NaN"})");
}

TEST(PythonJson, MistakesStay) {
  for (const char* text :
       {"", "{", "nan", "Nan", "Inf", "1e400x", "1e400.5.5", "\"\\", "\"\\u12", "\"NaN", "-", "--1"}) {
    const std::string strict = Strict(text);
    EXPECT_EQ(strict, std::string(text) == "1e400x" ? "{}   x" : text);
  }
}

TEST(PythonJson, HalfPairsBecomeTheReplacementCharacter) {
  const StrictJson half = StrictJsonOf(R"("\ud83d and \uDE00 and \ud83dx")");
  EXPECT_EQ(half.text, R"("\ufffd and \ufffd and \ufffdx")");
  EXPECT_TRUE(half.lone_surrogates);
  for (const char* whole : {R"("\ud83d\ude00")", R"("\\ud83d")", R"("é")", R"("\n\"\u0041")"}) {
    const StrictJson json = StrictJsonOf(whole);
    EXPECT_EQ(json.text, whole);
    EXPECT_FALSE(json.lone_surrogates);
  }
  EXPECT_EQ(Strict(R"("\ud83d\ud83d\ude00")"), R"("\ufffd\ud83d\ude00")");
}

TEST(PythonJson, TheFirstBracketBeyondTheLevelsIsFound) {
  EXPECT_EQ(ColumnNestedDeeper(R"({"a": [1, [2]], "b": [[]]})", 3), 0);
  EXPECT_EQ(ColumnNestedDeeper(R"({"a": [1, [2]], "b": [[]]})", 2), 11);
  EXPECT_EQ(ColumnNestedDeeper(R"({"[[[[": "\"[[[[", "b": ["[["]})", 2), 0) << "brackets in strings are text";
  EXPECT_EQ(ColumnNestedDeeper("]]]] [[[", 2), 8);
  EXPECT_EQ(ColumnNestedDeeper(std::string(1 << 20, '['), kJsonLevels), kJsonLevels + 1);
  EXPECT_EQ(ColumnNestedDeeper("\"\\", 0), 0) << "a string that does not end";
}

TEST(PythonJson, ReasonIsWithoutItsSurroundings) {
  EXPECT_EQ(ReasonOfJsonFault("[json.exception.parse_error.101] parse error at line 1, column 10: syntax error while "
                              "parsing value - unexpected '}'; expected '[', '{', or a literal"),
            "unexpected '}'; expected '[', '{', or a literal");
  EXPECT_EQ(ReasonOfJsonFault("[json.exception.parse_error.101] parse error at line 1, column 10: syntax error while "
                              "parsing value - invalid literal; last read: '\"secret text"),
            "invalid literal");
}

}  // namespace
}  // namespace atl
