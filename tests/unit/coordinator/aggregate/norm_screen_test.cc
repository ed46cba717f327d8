#include "coordinator/aggregate/norm_screen.h"

#include <gtest/gtest.h>

#include <limits>

namespace atl {
namespace {

constexpr ScreensSpec kEnforced = {.norm = ScreenMode::kEnforce};

NormHistory HistoryOf(size_t rounds, double norm = 1) {
  NormHistory history;
  for (size_t i = 0; i < rounds; ++i) history.Add(std::vector<double>{norm});
  return history;
}

NormVerdict Last(const ScreensSpec& rule, const NormHistory& history, std::vector<double> norms) {
  return JudgeNorms(rule, history, norms).back();
}

TEST(NormPerStep, CountsAShortContributionAsAWholePeriod) {
  EXPECT_EQ(NormPerStep(20, 10, 10), 2);
  EXPECT_EQ(NormPerStep(20, 1, 10), 2);
  EXPECT_EQ(NormPerStep(20, 40, 10), 0.5);
}

TEST(LowerMedian, IsNotMovedByFewerThanHalf) {
  EXPECT_EQ(LowerMedian({}), 0);
  EXPECT_EQ(LowerMedian(std::vector<double>{3}), 3);
  EXPECT_EQ(LowerMedian(std::vector<double>{9, 1}), 1);
  EXPECT_EQ(LowerMedian(std::vector<double>{1e9, 1, 3, 1e9, 2}), 3);
  EXPECT_EQ(LowerMedian(std::vector<double>{1e9, 1, 2, 1e9}), 2);
}

TEST(NormHistory, KeepsTheNewestRoundsThatSaySomething) {
  NormHistory history = HistoryOf(5, 100);
  history.Add({});
  history.Add(std::vector<double>{0, 0});
  EXPECT_EQ(history.rounds(), 5u);
  for (size_t i = 0; i < kNormRounds; ++i) history.Add(std::vector<double>{1e6, 2, 1});
  EXPECT_EQ(history.rounds(), kNormRounds);
  EXPECT_EQ(history.Median(), 2);
}

TEST(JudgeNorms, PassesClipsAndRefusesByDistance) {
  const NormHistory history = HistoryOf(8);
  EXPECT_EQ(Last(kEnforced, history, {1, 1, 1, 3}).action, NormAction::kPass);
  const NormVerdict clipped = Last(kEnforced, history, {1, 1, 1, 6});
  EXPECT_EQ(clipped.action, NormAction::kClip);
  EXPECT_EQ(clipped.ratio, 6);
  EXPECT_EQ(clipped.clip_factor, 0.5);
  EXPECT_EQ(Last(kEnforced, history, {1, 1, 1, 10}).action, NormAction::kClip);
  EXPECT_EQ(Last(kEnforced, history, {1, 1, 1, 10.5}).action, NormAction::kRefuse);
  EXPECT_EQ(Last(kEnforced, history, {1, 1, 1, 10.5}).clip_factor, 1);
  const std::vector<NormVerdict> of_all = JudgeNorms({}, history, std::vector<double>{1, 1.5, 1, 1e12});
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(of_all[i].action, NormAction::kPass);
}

TEST(JudgeNorms, OnlyReportsWhileItKnowsTooLittle) {
  EXPECT_EQ(Last(kEnforced, HistoryOf(kNormRoundsNeeded - 1), {1, 1, 1, 1000}).action, NormAction::kReport);
  EXPECT_EQ(Last(kEnforced, HistoryOf(kNormRoundsNeeded), {1, 1, 1000}).action, NormAction::kReport);
  EXPECT_EQ(Last(kEnforced, HistoryOf(kNormRoundsNeeded), {1, 1, 1, 1000}).action, NormAction::kRefuse);
  EXPECT_EQ(Last(kEnforced, {}, {1000}).action, NormAction::kPass);
  EXPECT_EQ(Last(kEnforced, {}, {0, 0}).ratio, 0);
}

TEST(JudgeNorms, DoesWhatTheModeSays) {
  const NormHistory history = HistoryOf(8);
  EXPECT_EQ(Last({.norm = ScreenMode::kReport}, history, {1, 1, 1, 1000}).action, NormAction::kReport);
  const NormVerdict clipped = Last({.norm = ScreenMode::kClip}, history, {1, 1, 1, 300});
  EXPECT_EQ(clipped.action, NormAction::kClip);
  EXPECT_EQ(clipped.clip_factor, 0.01);
  EXPECT_EQ(Last({.norm = ScreenMode::kEnforce, .clip_above = 2, .refuse_above = 2}, history, {1, 1, 1, 2.5}).action,
            NormAction::kRefuse);
}

TEST(JudgeNorms, WhatChangesForEverybodyIsNobodysFault) {
  const NormHistory history = HistoryOf(16);
  for (const NormVerdict& verdict : JudgeNorms({}, history, std::vector<double>{50, 55, 45, 60}))
    EXPECT_EQ(verdict.action, NormAction::kPass);
  EXPECT_EQ(Last(kEnforced, history, {50, 55, 45, 60, 5000}).action, NormAction::kRefuse);
  EXPECT_EQ(Last(kEnforced, history, {50, 55, 45, std::numeric_limits<double>::infinity()}).action,
            NormAction::kRefuse);
}

TEST(NormClause, NamesTheFigure) {
  EXPECT_EQ(NormClause({NormAction::kRefuse, 1234.5, 1}),
            "its norm per inner step is 1.23e+03 times the median of the fragment");
}

}  // namespace
}  // namespace atl
