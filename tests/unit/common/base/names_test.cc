// SPDX-License-Identifier: Apache-2.0
#include "common/base/names.h"

#include <gtest/gtest.h>

#include <string>

namespace atl {
namespace {

TEST(NamesTest, TheRuleIsWhatItsWordsSay) {
  for (const std::string& good : {std::string("a"), std::string("0"), std::string("paris-1-"), std::string(63, 'z')})
    EXPECT_TRUE(IsName(good)) << good;
  for (const std::string& bad : {std::string(), std::string("-a"), std::string("A"), std::string("a b"),
                                 std::string("a_b"), std::string("a/b"), std::string("a\0b", 3), std::string(64, 'a')})
    EXPECT_FALSE(IsName(bad)) << bad;
}

}  // namespace
}  // namespace atl
