// SPDX-License-Identifier: Apache-2.0
#include "coordinator/aggregate/norm_screen.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace atl {
namespace {

constexpr ScreensSpec kEnforced = {.norm = ScreenMode::kEnforce};
constexpr uint32_t kPeriod = 40;
constexpr double kRate = 0.01;

// Workers a, b, c and so on, each after a whole period, with these norms per step.
std::vector<NormSample> Whole(const std::vector<double>& per_step) {
  std::vector<NormSample> samples;
  for (size_t i = 0; i < per_step.size(); ++i)
    samples.push_back(
        SampleOf(WorkerId{std::string(1, static_cast<char>('a' + i))}, per_step[i] * kPeriod, kPeriod, kPeriod));
  return samples;
}

NormHistory HistoryOf(size_t rounds, double norm = 1) {
  NormHistory history;
  for (size_t i = 0; i < rounds; ++i) history.Add(Whole({norm, norm, norm, norm}), kRate);
  return history;
}

NormVerdict Last(const ScreensSpec& rule, const NormHistory& history, const std::vector<double>& norms) {
  return JudgeNorms(rule, history, kRate, Whole(norms)).back();
}

TEST(SampleOf, FewStepsAreNoLicenceAndManyASmallOne) {
  const WorkerId a{"a"};
  EXPECT_EQ(SampleOf(a, 20, 10, 10).judged, 2);
  EXPECT_EQ(SampleOf(a, 20, 10, 10).shown, 2);
  EXPECT_EQ(SampleOf(a, 20, 1, 10).judged, 2);
  EXPECT_EQ(SampleOf(a, 20, 0, 10).judged, 2);
  EXPECT_EQ(SampleOf(a, 20, 0, 10).shown, 0);
  EXPECT_EQ(SampleOf(a, 20, 40, 10).judged, 0.5);
  EXPECT_EQ(SampleOf(a, 20, 40, 10).shown, 1);
  EXPECT_EQ(SampleOf(a, 20, 4'000'000, 10).judged, 0.5);
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
  history.Add({}, kRate);
  history.Add(Whole({0, 0}), kRate);
  EXPECT_EQ(history.rounds(), 5u);
  EXPECT_EQ(history.workers(), 4u);
  for (size_t i = 0; i < kNormRounds; ++i) history.Add(Whole({1e6, 2, 1}), kRate);
  EXPECT_EQ(history.rounds(), kNormRounds);
  EXPECT_EQ(history.workers(), 3u);
  EXPECT_EQ(history.Median(kRate), 2);
}

TEST(NormHistory, AWorkerCountsOnceHoweverManyRoundsItIsIn) {
  NormHistory history;
  history.Add(Whole({1, 1, 1}), kRate);
  for (size_t i = 0; i < kNormRounds - 1; ++i) {
    const std::vector<NormSample> alone = {SampleOf(WorkerId{"z"}, 1e6, kPeriod, kPeriod)};
    history.Add(alone, kRate);
  }
  EXPECT_EQ(history.Median(kRate), 1);
}

// Such rounds, in which most workers had hardly trained, made honest workers look a hundred times
// too large.
TEST(NormHistory, RoundsOfHardlyAnythingDoNotMakeItSmall) {
  NormHistory history = HistoryOf(1);
  for (size_t i = 0; i < kNormRounds - 1; ++i) {
    std::vector<NormSample> round;
    for (const char* worker : {"a", "b", "c", "d"}) {
      const uint64_t steps = i % 2 == 0 ? 1 : kPeriod;  // at a new rate, or merged after their round
      round.push_back(SampleOf(WorkerId{worker}, 0.01 * kPeriod, steps, kPeriod));
    }
    history.Add(round, kRate);
  }
  EXPECT_EQ(history.Median(kRate), 1);
  EXPECT_EQ(JudgeNorms(kEnforced, history, kRate, Whole({0.01, 0.01, 0.01, 1}))[3].action, NormAction::kPass);
}

TEST(NormHistory, ShortContributionsMeasureTheSameAsLongOnes) {
  NormHistory history;
  for (size_t i = 0; i < kNormRounds; ++i) {
    std::vector<NormSample> round;
    for (const char* worker : {"a", "b", "c", "d"})
      round.push_back(SampleOf(WorkerId{worker}, std::sqrt(10.0 * kPeriod), 10, kPeriod));
    history.Add(round, kRate);
  }
  EXPECT_DOUBLE_EQ(history.Median(kRate), 1);
}

TEST(NormHistory, RisingRateIsNoWorkersFault) {
  const NormHistory history = HistoryOf(8);
  EXPECT_EQ(history.Median(5 * kRate), 5);
  EXPECT_EQ(history.Median(kRate / 5), 1);
  const std::vector<NormSample> mixed = Whole({0.01, 0.01, 0.01, 12});
  EXPECT_EQ(JudgeNorms(kEnforced, history, 5 * kRate, mixed)[3].action, NormAction::kPass);
  EXPECT_EQ(JudgeNorms(kEnforced, history, kRate, mixed)[3].action, NormAction::kRefuse);
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
  const std::vector<NormVerdict> of_all = JudgeNorms({}, history, kRate, Whole({1, 1.5, 1, 1e12}));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(of_all[i].action, NormAction::kPass);
}

TEST(JudgeNorms, OnlyReportsWhileItKnowsTooLittle) {
  EXPECT_EQ(Last(kEnforced, HistoryOf(kNormRoundsNeeded - 1), {1, 1, 1, 1000}).action, NormAction::kReport);
  EXPECT_EQ(Last(kEnforced, HistoryOf(kNormRoundsNeeded), {1, 1, 1000}).action, NormAction::kReport);
  EXPECT_EQ(Last(kEnforced, HistoryOf(kNormRoundsNeeded), {1, 1, 1, 1000}).action, NormAction::kRefuse);
  NormHistory of_three;
  for (size_t i = 0; i < kNormRounds; ++i) of_three.Add(Whole({1, 1, 1}), kRate);
  EXPECT_EQ(Last(kEnforced, of_three, {1, 1, 1, 1000}).action, NormAction::kReport);
  EXPECT_EQ(Last(kEnforced, {}, {1000}).action, NormAction::kPass);
  EXPECT_EQ(Last(kEnforced, {}, {0, 0}).ratio, 0);
}

// A flipped bit in a worker's memory gives 1e38: with three workers that was merged.
TEST(JudgeNorms, ImpossibleNormIsRefusedWithAnyHistory) {
  constexpr double kFault = 1e30;
  EXPECT_EQ(Last(kEnforced, {}, {1, 1, kFault}).action, NormAction::kRefuse);
  EXPECT_EQ(Last(kEnforced, {}, {1, kFault}).action, NormAction::kRefuse);
  EXPECT_EQ(Last(kEnforced, {}, {1, kFault, kFault}).action, NormAction::kRefuse);
  for (const NormVerdict& verdict : JudgeNorms(kEnforced, {}, kRate, Whole({kFault, 1})))
    EXPECT_EQ(verdict.action, verdict.ratio > 1 ? NormAction::kRefuse : NormAction::kPass);
  NormHistory of_one;
  of_one.Add(Whole({1}), kRate);
  EXPECT_EQ(Last(kEnforced, of_one, {kFault}).action, NormAction::kRefuse);
  EXPECT_EQ(Last(kEnforced, of_one, {kFault}).ratio, kFault);
  EXPECT_EQ(Last(kEnforced, of_one, {0.9 * kBeyondDoubt}).action, NormAction::kPass);
  EXPECT_EQ(Last(kEnforced, of_one, {1, 0.9 * kBeyondDoubt}).action, NormAction::kReport);
  EXPECT_EQ(Last({.norm = ScreenMode::kReport}, of_one, {kFault}).action, NormAction::kReport);
  const NormVerdict clipped = Last({.norm = ScreenMode::kClip}, of_one, {kFault});
  EXPECT_EQ(clipped.action, NormAction::kClip);
  EXPECT_EQ(clipped.clip_factor, 3 / kFault);
  // There is nothing to compare with, or every worker has the fault.
  EXPECT_EQ(Last(kEnforced, {}, {kFault}).action, NormAction::kPass);
  EXPECT_EQ(Last(kEnforced, {}, {0, kFault}).action, NormAction::kPass);
  EXPECT_EQ(Last(kEnforced, of_one, {kFault, kFault}).action, NormAction::kPass);
}

TEST(JudgeNorms, FollowsTheMode) {
  const NormHistory history = HistoryOf(8);
  EXPECT_EQ(Last({.norm = ScreenMode::kReport}, history, {1, 1, 1, 1000}).action, NormAction::kReport);
  const NormVerdict clipped = Last({.norm = ScreenMode::kClip}, history, {1, 1, 1, 300});
  EXPECT_EQ(clipped.action, NormAction::kClip);
  EXPECT_EQ(clipped.clip_factor, 0.01);
  EXPECT_EQ(Last({.norm = ScreenMode::kEnforce, .clip_above = 2, .refuse_above = 2}, history, {1, 1, 1, 2.5}).action,
            NormAction::kRefuse);
}

TEST(JudgeNorms, CommonChangeIsNoWorkersFault) {
  const NormHistory history = HistoryOf(16);
  for (const NormVerdict& verdict : JudgeNorms({}, history, kRate, Whole({50, 55, 45, 60})))
    EXPECT_EQ(verdict.action, NormAction::kPass);
  EXPECT_EQ(Last(kEnforced, history, {50, 55, 45, 60, 5000}).action, NormAction::kRefuse);
  EXPECT_EQ(Last(kEnforced, history, {50, 55, 45, std::numeric_limits<double>::infinity()}).action,
            NormAction::kRefuse);
}

// At the end of the data, when finished workers send nothing more.
TEST(JudgeNorms, FewRemainingAreComparedWithTheHistoryOnly) {
  const NormHistory history = HistoryOf(8);
  const auto alone = [&](const NormHistory& known, const std::vector<double>& norms) {
    return JudgeNorms(kEnforced, known, kRate, Whole(norms), true).back();
  };
  EXPECT_EQ(alone(history, {3}).action, NormAction::kPass);
  EXPECT_EQ(alone(history, {6}).action, NormAction::kClip);
  EXPECT_EQ(alone(history, {6}).clip_factor, 0.5);
  EXPECT_EQ(alone(history, {1000}).action, NormAction::kRefuse);
  EXPECT_EQ(alone(history, {1000, 1000, 1000}).action, NormAction::kRefuse);
  EXPECT_EQ(alone(history, {50, 55, 45, 60}).action, NormAction::kPass);
  EXPECT_EQ(alone(HistoryOf(kNormRoundsNeeded - 1), {1, 1000}).action, NormAction::kReport);
  EXPECT_EQ(alone({}, {1000}).action, NormAction::kPass);
}

// One hostile worker among four, in rounds with few steps of the others. Whatever step count it
// claims, at most clip_above times the median is merged, and the median is not its own.
TEST(JudgeNorms, HostileWorkerCannotHideByItsSteps) {
  NormHistory history = HistoryOf(8);
  for (const uint64_t steps : {0u, 1u, 10u, 40u, 80u, 100'000u}) {
    for (size_t i = 0; i < kNormRounds; ++i) {
      std::vector<NormSample> round = Whole({1, 1, 1});
      round.push_back(SampleOf(WorkerId{"d"}, 1000.0 * kPeriod, steps, kPeriod));
      EXPECT_EQ(JudgeNorms(kEnforced, history, kRate, round)[3].action, NormAction::kRefuse) << steps;
      round[3] = SampleOf(WorkerId{"d"}, 3.0 * kPeriod, steps, kPeriod);
      history.Add(round, kRate);
    }
    EXPECT_EQ(history.Median(kRate), 1) << steps;
  }
}

TEST(NormClause, NamesTheFigure) {
  EXPECT_EQ(NormClause({NormAction::kRefuse, 1234.5, 1}),
            "its norm per inner step is 1.23e+03 times the median of the fragment");
}

}  // namespace
}  // namespace atl
