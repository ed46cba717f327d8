// SPDX-License-Identifier: Apache-2.0
#include "common/base/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace atl {
namespace {

absl::StatusOr<std::unique_ptr<int>> Half(int x) {
  if (x % 2 != 0) return absl::InvalidArgumentError(absl::StrCat(x, " is odd"));
  return std::make_unique<int>(x / 2);
}

absl::StatusOr<int> Quarter(int x) {
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<int> half, Half(x));
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<int> quarter, Half(*half));
  return *quarter;
}

absl::Status Check(int x, int& calls) {
  ATOLL_RETURN_IF_ERROR(Annotate(Half(x).status(), "check"));
  ++calls;
  return absl::OkStatus();
}

TEST(Macros, PassValuesAndErrorsOn) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status(), absl::InvalidArgumentError("3 is odd"));
  int calls = 0;
  EXPECT_TRUE(Check(2, calls).ok());
  EXPECT_EQ(Check(3, calls), absl::InvalidArgumentError("check: 3 is odd"));
  EXPECT_EQ(calls, 1);
}

TEST(Annotate, KeepsCodeAndLeavesOkAlone) {
  EXPECT_EQ(Annotate(absl::NotFoundError("b"), "a"), absl::NotFoundError("a: b"));
  EXPECT_TRUE(Annotate(absl::OkStatus(), "a").ok());
}

}  // namespace
}  // namespace atl
