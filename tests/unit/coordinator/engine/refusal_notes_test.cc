// SPDX-License-Identifier: Apache-2.0
// Which refusals are logged, and how often.
#include "coordinator/engine/refusal_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/core/lateness.h"
#include "tests/support/manual_clock.h"

namespace atl {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

const absl::Status kVoid = absl::FailedPreconditionError("incarnation 3 of worker a is void: say hello again");

class RefusalNotesTest : public testing::Test {
 protected:
  std::optional<JobNote> Refuse(const std::string& worker, const absl::Status& status) {
    return notes_.OnRefused(JobId{"tiny"}, WorkerId{worker}, status, clock_.Now());
  }

  ManualClock clock_;
  RefusalNotes notes_;
};

TEST_F(RefusalNotesTest, ReasonIsLoggedAtOnceThenRarely) {
  const auto first = Refuse("a", kVoid);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->job, JobId{"tiny"});
  EXPECT_EQ(first->kind, "upload refused");
  EXPECT_THAT(first->text, HasSubstr("worker a is refused: incarnation 3"));
  EXPECT_THAT(first->text, Not(HasSubstr("since")));
  EXPECT_EQ(first->fields.at("reason"), "FAILED_PRECONDITION");
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(Refuse("a", kVoid));
  EXPECT_TRUE(Refuse("b", kVoid)) << "another worker";
  EXPECT_TRUE(Refuse("a", absl::AbortedError("superseded"))) << "another reason";
  clock_.Advance(kRefusalsQuiet);
  const auto again = Refuse("a", kVoid);
  ASSERT_TRUE(again.has_value());
  EXPECT_THAT(again->text, EndsWith("; so were 7 since the previous line"));
  EXPECT_EQ(again->fields.at("since_line_before"), "7");
  EXPECT_FALSE(Refuse("a", kVoid));
}

TEST_F(RefusalNotesTest, OrdinaryRefusalsAreOnlyCounted) {
  EXPECT_FALSE(Refuse("a", LateError("version 7 is being made")));
  EXPECT_EQ(RefusalReason(LateError("version 7 is being made")), "late");
  EXPECT_FALSE(Refuse("a", absl::UnavailableError("the job is being loaded; ask again")));
  EXPECT_EQ(RefusalReason(kVoid), "FAILED_PRECONDITION");
  EXPECT_EQ(RefusalReason(absl::AbortedError("late: not so")), "ABORTED");
}

TEST_F(RefusalNotesTest, ManyNamesFillNoLog) {
  size_t told = 0;
  for (size_t i = 0; i < 10 * kRefusalsTold; ++i) told += Refuse(absl::StrCat("made-up-", i), kVoid).has_value();
  EXPECT_EQ(told, kRefusalsTold);
  clock_.Advance(kRefusalsQuiet);
  EXPECT_TRUE(Refuse("late-comer", kVoid));
}

TEST(Refusals, AConnectionThatBreaksIsNone) {
  for (const absl::Status& status : {absl::OkStatus(), absl::CancelledError("the peer is gone"),
                                     absl::UnavailableError("reset"), absl::DeadlineExceededError("nothing came")})
    EXPECT_FALSE(IsRefusal(status)) << status;
  for (const absl::Status& status : {absl::DataLossError("another digest"), absl::InvalidArgumentError("too long"),
                                     absl::ResourceExhaustedError("no space left")})
    EXPECT_TRUE(IsRefusal(status)) << status;
}

}  // namespace
}  // namespace atl
