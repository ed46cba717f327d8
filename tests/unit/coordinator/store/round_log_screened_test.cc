// SPDX-License-Identifier: Apache-2.0
// Replacing an accepted contribution that the screens refused later.
#include <gtest/gtest.h>

#include "coordinator/store/round_log.h"
#include "tests/unit/coordinator/store/round_log_fixture.h"

namespace atl {
namespace {

// The worker may try the same version again, also after a restart.
TEST_F(RoundLogTest, ContributionRefusedByTheScreensIsReplaced) {
  auto log = Reopen(1);
  ASSERT_TRUE(log->Begin(kKey, HeaderOf("a", b_)).ok());
  ASSERT_EQ(Put(*log, "a", 0, b_), absl::OkStatus());
  ASSERT_EQ(log->Accept(kKey, {"a"}, 1), absl::OkStatus());
  log = Reopen(2);
  EXPECT_EQ(log->Begin(kKey, HeaderOf("a", a_), DigestOf(a_)).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*log->Begin(kKey, HeaderOf("a", b_), DigestOf(b_)), b_.size()) << "nothing is left to send";
  EXPECT_EQ(*log->Begin(kKey, HeaderOf("a", a_), DigestOf(b_)), 0u);
  ASSERT_EQ(Put(*log, "a", 0, a_), absl::OkStatus());
  ASSERT_EQ(log->Accept(kKey, {"a"}, 2), absl::OkStatus());
  EXPECT_EQ(*log->ReadContribution(kKey, {"a"}), a_);
  log = Reopen(3);
  EXPECT_EQ(*log->ReadContribution(kKey, {"a"}), a_);
  ASSERT_EQ(log->Info(kKey)->accepted.size(), 1u);
  EXPECT_EQ(log->Info(kKey)->accepted[0].header.digest, DigestOf(a_));
}

}  // namespace
}  // namespace atl
