// SPDX-License-Identifier: Apache-2.0
#include "common/base/check.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

TEST(CheckDeathTest, StopsWithPlaceExpressionAndReason) {
  const int version = 3;
  EXPECT_DEATH(ATOLL_CHECK(version == 4, "versions grow by one"),
               "check_test.cc:[0-9]+: check failed: version == 4: versions grow by one");
}

TEST(Check, EvaluatesItsConditionOnce) {
  int calls = 0;
  ATOLL_CHECK(++calls == 1, "first");
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace atl
