// SPDX-License-Identifier: Apache-2.0
// Limits of a contribution's claims: the samples that its worker's cursors cover. A sample has 10
// tokens here.
#include "coordinator/core/claims.h"

#include <gtest/gtest.h>

#include "common/plan/ledger_fold.h"

namespace atl {
namespace {

ContributionHeader Claim(uint32_t fragment, uint64_t samples, uint64_t incarnation = 1) {
  ContributionHeader header;
  header.worker = WorkerId{"a"};
  header.incarnation = Incarnation{incarnation};
  header.target = {FragmentIndex{fragment}, Version{0}};
  header.steps = samples;
  header.tokens = samples * 10;
  return header;
}

// `after`: samples that the contribution covers beyond the committed ones.
absl::Status Check(const ClaimsBook& book, const ContributionHeader& header, uint64_t after, uint64_t before = 0,
                   uint64_t allowance = 30) {
  return book.Check(header, {.before = before, .after = after, .allowance = allowance});
}

TEST(Claims, TokensAreHeldToTheSamplesCovered) {
  const ClaimsBook book(10);
  EXPECT_TRUE(Check(book, Claim(0, 100), 100).ok());
  const absl::Status more = Check(book, Claim(0, 101), 100);
  EXPECT_EQ(more.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(more.message().find("claims 1010 tokens of 101 inner steps"), std::string::npos) << more;
  EXPECT_EQ(Check(book, Claim(0, 1), 0).code(), absl::StatusCode::kInvalidArgument) << "no lease is named";
}

TEST(Claims, StepsAreHeldToTheSamplesCovered) {
  ContributionHeader many = Claim(0, 100);
  many.steps = 101;
  EXPECT_EQ(Check(ClaimsBook(10), many, 100).code(), absl::StatusCode::kInvalidArgument);
  many.steps = 50;
  EXPECT_TRUE(Check(ClaimsBook(10), many, 100).ok());
}

TEST(Claims, ASampleIsClaimedOnceForEachFragment) {
  ClaimsBook book(10);
  book.Commit(Claim(0, 100), 100);
  EXPECT_EQ(Check(book, Claim(0, 1), 0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Check(book, Claim(1, 100), 0).ok());
  EXPECT_TRUE(Check(book, Claim(0, 20), 20).ok());
}

// After a dropped, refused or missed sync the samples stay covered, and are claimed with the next
// sync.
TEST(Claims, WorkOfMissedSyncsIsClaimedLater) {
  ClaimsBook book(10);
  for (int period = 0; period < 5; ++period) book.Commit(Claim(0, 20), 20);
  EXPECT_TRUE(Check(book, Claim(1, 120), 20).ok());
  EXPECT_FALSE(Check(book, Claim(1, 121), 20).ok());
}

TEST(Claims, ConsumeAllIsRefused) {
  ClaimsBook book(10);
  // One step is claimed; the cursors are at the ends of all leases.
  const absl::Status all = Check(book, Claim(0, 1), 160);
  EXPECT_EQ(all.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(all.message().find("cover samples of 1590 tokens"), std::string::npos) << all;
  for (const char* const fetched : {"a fragment was fetched again: others have the rest", "and again"}) {
    EXPECT_TRUE(Check(book, Claim(0, 1), 31).ok()) << fetched;
    book.Commit(Claim(0, 1), 31);
  }
  EXPECT_FALSE(Check(book, Claim(0, 1), 31).ok()) << "and a third time";
  EXPECT_TRUE(Check(book, Claim(0, 31), 31).ok());
  EXPECT_TRUE(book.Check(Claim(0, 1), {.after = 31, .allowance = 30, .claimed = 310}).ok())
      << "another fragment's accepted contribution claims them";
}

TEST(Claims, ANewIncarnationDoesNotForgetWhatWasConsumed) {
  ClaimsBook book(10);
  // Each incarnation may lose what it trained on for a fragment that it then fetches whole.
  for (uint64_t incarnation = 1; incarnation <= 2; ++incarnation) {
    ASSERT_TRUE(Check(book, Claim(0, 1, incarnation), 31).ok()) << incarnation;
    book.Commit(Claim(0, 1, incarnation), 31);
  }
  EXPECT_FALSE(Check(book, Claim(0, 1, 3), 31).ok());
  EXPECT_TRUE(Check(book, Claim(0, 31, 3), 31).ok()) << "a worker that trains what it covers is not refused";
}

TEST(Claims, AnOlderIncarnationCountsForNothing) {
  ClaimsBook book(10);
  book.Commit(Claim(0, 10, 2), 10);
  book.Commit(Claim(0, 50, 1), 50);
  EXPECT_EQ(book.ClaimedFor(WorkerId{"a"}, Incarnation{2}, FragmentIndex{0}), 100u);
  EXPECT_FALSE(Check(book, Claim(1, 11, 2), 0).ok());
}

// The ledger stores only claimed samples, not covered ones.
TEST(Claims, AStartGoesOnFromWhatWasClaimed) {
  ClaimsBook book(10);
  book.Recover(
      {{WorkerId{"a"}, Incarnation{1}, FragmentIndex{0}, 1000}, {WorkerId{"a"}, Incarnation{1}, FragmentIndex{1}, 400}},
      7);
  EXPECT_TRUE(Check(book, Claim(1, 60), 0).ok());
  EXPECT_TRUE(Check(book, Claim(0, 7), 0).ok()) << "the slack of a start";
  EXPECT_FALSE(Check(book, Claim(0, 8), 0).ok());
  EXPECT_FALSE(Check(book, Claim(1, 68), 0).ok());
}

TEST(Claims, NumbersThatOverflowAreRefused) {
  ContributionHeader huge = Claim(0, 1);
  huge.tokens = huge.steps = uint64_t{1} << 62;
  EXPECT_FALSE(Check(ClaimsBook(10), huge, 100).ok());
}

TEST(Claims, TheLedgerHasTheTotals) {
  LedgerFold fold;
  JobRecord job;
  job.job = JobId{"j"};
  job.fragments = 2;
  WorkerRecord worker;
  worker.worker = WorkerId{"a"};
  worker.incarnation = Incarnation{2};
  fold.Apply({job, worker});
  uint64_t version = 0;
  for (const uint64_t incarnation : {uint64_t{1}, uint64_t{2}, uint64_t{2}, uint64_t{1}}) {
    RoundRecord round;
    round.job = JobId{"j"};
    round.reached = {FragmentIndex{1}, Version{++version}};
    round.contributions.push_back({Claim(1, 5, incarnation)});
    fold.Apply({round});
  }
  const RecoveredState state = fold.State(BootNumber{1});
  ASSERT_EQ(state.jobs[0].claims.size(), 1u);
  EXPECT_EQ(state.jobs[0].claims[0].tokens, 100u);
  EXPECT_EQ(state.jobs[0].claims[0].fragment, FragmentIndex{1});
}

}  // namespace
}  // namespace atl
