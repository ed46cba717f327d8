// SPDX-License-Identifier: Apache-2.0
#include "common/base/utf8.h"

#include <gtest/gtest.h>

#include "common/base/random.h"

namespace atl {
namespace {

using std::string_literals::operator""s;

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(FirstInvalidUtf8(""), 0u);
  EXPECT_EQ(FirstInvalidUtf8("abc\0\x7f"s), 5u);
  EXPECT_EQ(FirstInvalidUtf8("a\xc3\xa4\xe4\xbd\xa0\xf0\x9f\x98\x80"), 10u);
  EXPECT_EQ(FirstInvalidUtf8("ab\xff"), 2u);
  EXPECT_EQ(FirstInvalidUtf8("ab\x80"), 2u);
  EXPECT_EQ(FirstInvalidUtf8("\xc0\xaf"), 0u);          // overlong
  EXPECT_EQ(FirstInvalidUtf8("\xe0\x80\xaf"), 0u);      // overlong
  EXPECT_EQ(FirstInvalidUtf8("\xed\xa0\x80"), 0u);      // surrogate
  EXPECT_EQ(FirstInvalidUtf8("\xf4\x90\x80\x80"), 0u);  // beyond U+10FFFF
  EXPECT_EQ(FirstInvalidUtf8("x\xe4\xbd"), 1u);         // cut
  EXPECT_EQ(FirstInvalidUtf8("\xf4\x8f\xbf\xbf"), 4u);
}

TEST(Utf8, EveryCodePointRoundTrips) {
  for (char32_t code = 1; code <= 0x10ffff; ++code) {
    std::string text;
    AppendUtf8(code, text);
    const bool surrogate = code >= 0xd800 && code <= 0xdfff;
    ASSERT_EQ(FirstInvalidUtf8(text) == text.size(), !surrogate) << static_cast<uint32_t>(code);
    ASSERT_EQ(Utf8Length(text[0]), text.size());
    ASSERT_EQ(Utf8At(text, 0), code);
  }
}

}  // namespace
}  // namespace atl
