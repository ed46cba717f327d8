// SPDX-License-Identifier: Apache-2.0
// Which workers are reported for pointing against the others, when, and how often.
#include "coordinator/engine/direction_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

namespace atl {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class DirectionWatchTest : public testing::Test {
 protected:
  std::vector<JobNote> Close(const std::map<std::string, std::optional<double>>& cosines, uint32_t fragment = 0) {
    RoundRecord record;
    record.job = JobId{"tiny"};
    record.epoch = epoch_;
    record.reached = {FragmentIndex{fragment}, Version{++version_}};
    last_ = {};
    for (const auto& [worker, cosine] : cosines)
      last_.contributions.push_back({.worker = {worker}, .cosine_to_others = cosine});
    return watch_.OnRound(record, last_);
  }
  const ContributionMeasures& Of(size_t i) const { return last_.contributions.at(i); }

  DirectionWatch watch_;
  uint64_t epoch_ = 0, version_ = 0;
  RoundMeasures last_;
};

TEST_F(DirectionWatchTest, ReportsAnOpposingWorkerOnce) {
  for (size_t i = 1; i < kDirectionRounds; ++i) {
    EXPECT_THAT(Close({{"a", 0.4}, {"b", 0.3}, {"e", -0.9}}), IsEmpty()) << "too few rounds";
    EXPECT_FALSE(Of(2).against_others);
    EXPECT_EQ(Of(2).others_mean, std::nullopt) << i;
  }
  const auto notes = Close({{"a", 0.4}, {"b", 0.3}, {"e", -0.9}});
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].kind, kAgainstTheOthers);
  EXPECT_THAT(notes[0].text, HasSubstr("worker e: its newest 8 contributions to fragment 0 point against those of the "
                                       "others, with a mean cosine of -0.90"));
  EXPECT_EQ(notes[0].fields.at("worker"), "e");
  EXPECT_TRUE(Of(2).against_others);
  EXPECT_NEAR(Of(2).others_mean.value_or(9), -0.9, 1e-12);
  EXPECT_FALSE(Of(0).against_others);
  for (int i = 0; i < 20; ++i) EXPECT_THAT(Close({{"a", 0.4}, {"b", 0.3}, {"e", -0.9}}), IsEmpty()) << "said already";
  for (int i = 0; i < 8; ++i) EXPECT_THAT(Close({{"a", 0.4}, {"b", 0.3}, {"e", 0.5}}), IsEmpty());
  EXPECT_FALSE(Of(2).against_others);
  size_t again = 0;
  for (int i = 0; i < 20; ++i) again += Close({{"a", 0.4}, {"b", 0.3}, {"e", -0.9}}).size();
  EXPECT_EQ(again, 1u) << "after it had pointed along";
}

TEST_F(DirectionWatchTest, NoiseTwoWorkersAndOtherFragmentsAreNoReport) {
  for (int i = 0; i < 40; ++i) {
    const double noise = i % 2 == 0 ? -0.5 : 0.4;
    EXPECT_THAT(Close({{"a", noise}, {"b", -noise}, {"c", 0.1}}), IsEmpty());
  }
  for (int i = 0; i < 40; ++i) EXPECT_THAT(Close({{"x", -0.9}, {"y", -0.9}}), IsEmpty()) << "which of the two is it?";
  for (int i = 0; i < 40; ++i)
    EXPECT_THAT(Close({{"x", std::nullopt}, {"y", std::nullopt}, {"z", std::nullopt}}), IsEmpty());
  for (uint32_t i = 0; i < 14; ++i) EXPECT_THAT(Close({{"a", 0.4}, {"b", 0.3}, {"e", -0.9}}, 1 + i % 2), IsEmpty());
}

TEST_F(DirectionWatchTest, RollbackAndLongAbsenceRestartTheMean) {
  for (size_t i = 1; i < kDirectionRounds; ++i) (void)Close({{"a", 0.4}, {"b", 0.3}, {"e", -0.9}});
  ++epoch_;
  EXPECT_THAT(Close({{"a", 0.4}, {"b", 0.3}, {"e", -0.9}}), IsEmpty());
  for (size_t i = 2; i < kDirectionRounds; ++i) (void)Close({{"a", 0.4}, {"b", 0.3}, {"e", -0.9}});
  for (uint64_t i = 0; i <= kDirectionMemory; ++i) (void)Close({{"a", 0.4}, {"b", 0.3}, {"c", 0.2}});
  EXPECT_THAT(Close({{"a", 0.4}, {"b", 0.3}, {"e", -0.9}}), IsEmpty());
}

}  // namespace
}  // namespace atl
