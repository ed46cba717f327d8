// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/round_loss.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/plan/limits.h"
#include "coordinator/core/explain.h"

namespace atl {
namespace {

constexpr int64_t kNat = 1'000'000, kLie = limits::kMostLossMicro;

RoundRecord RoundOf(const std::vector<int64_t>& losses) {
  RoundRecord record;
  for (size_t i = 0; i < losses.size(); ++i) {
    ContributionHeader header;
    header.worker = WorkerId{absl::StrCat("w", i)};
    header.tokens = 100;
    header.mean_loss_micro = losses[i];
    record.contributions.push_back({header, 1.0, 1.0});
  }
  return record;
}

TEST(RoundLoss, OneLieAmongManyIsBounded) {
  const RoundRecord four = RoundOf({3 * kNat, 4 * kNat, kLie, 2 * kNat}), two = RoundOf({3 * kNat, kLie});
  EXPECT_EQ(MostLossCountedMicro(four), kUnremarkableLossMicro);
  EXPECT_EQ(LossesBounded(four), std::vector<WorkerId>{{"w2"}});
  EXPECT_EQ(LossesBounded(two), std::vector<WorkerId>{{"w1"}});
}

TEST(RoundLoss, ADivergedJobIsShownAsItIs) {
  for (const std::vector<int64_t>& losses :
       {std::vector<int64_t>{}, {kLie}, {kLie, kLie}, {900 * kNat, 500 * kNat, 700 * kNat, 600 * kNat}})
    EXPECT_TRUE(LossesBounded(RoundOf(losses)).empty()) << losses.size();
}

TEST(RoundLoss, OrdinaryLossesAreNeverBounded) {
  Rng rng(StreamKey(1, "losses"));
  for (int round = 0; round < 1000; ++round) {
    std::vector<int64_t> losses;
    for (uint64_t n = 1 + rng.Below(9); n > 0; --n) losses.push_back(static_cast<int64_t>(rng.Below(33 * kNat)));
    EXPECT_TRUE(LossesBounded(RoundOf(losses)).empty());
  }
}

// Of a round's workers, fewer than half raise no bound, whatever they claim.
TEST(RoundLoss, AMinorityDoesNotRaiseTheBound) {
  Rng rng(StreamKey(2, "losses"));
  for (int round = 0; round < 1000; ++round) {
    const uint64_t honest = 1 + rng.Below(5);
    std::vector<int64_t> losses(honest, 2 * kNat);
    for (uint64_t liars = rng.Below(honest); liars > 0; --liars)
      losses.insert(losses.begin(), static_cast<int64_t>(rng.Below(static_cast<uint64_t>(kLie) + 1)));
    EXPECT_EQ(MostLossCountedMicro(RoundOf(losses)), kUnremarkableLossMicro);
  }
}

TEST(RoundLoss, TheNoteOfTheRoundNamesTheWorker) {
  const JobNote note = RoundCommittedNote(RoundOf({3 * kNat, kLie}));
  EXPECT_EQ(note.text, "version 0 of fragment 0 with w0 and w1; loss far above the others', bounded in their mean: w1");
  EXPECT_EQ(note.fields.at("loss_bounded"), "w1");
  EXPECT_EQ(RoundCommittedNote(RoundOf({3 * kNat, 4 * kNat})).fields.at("loss_bounded"), "");
}

}  // namespace
}  // namespace atl
