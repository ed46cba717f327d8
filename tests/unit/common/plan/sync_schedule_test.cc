// SPDX-License-Identifier: Apache-2.0
#include "common/plan/sync_schedule.h"

#include <gtest/gtest.h>

#include <set>

namespace atl {
namespace {

std::vector<uint64_t> SendSteps(const SyncSchedule& schedule, uint32_t fragment, uint64_t until) {
  std::vector<uint64_t> steps;
  for (uint64_t s = 0; s <= until; ++s) {
    if (schedule.IsSendStep(FragmentIndex{fragment}, s)) steps.push_back(s);
  }
  return steps;
}

// The streaming fixture of torchft: H = 6, P = 2, fragment 0 at 3 and 9, fragment 1 at 6 and 12.
TEST(SyncSchedule, SpreadsFragmentsOverThePeriod) {
  const SyncSchedule schedule(6, 0, 2);
  EXPECT_EQ(SendSteps(schedule, 0, 12), (std::vector<uint64_t>{3, 9}));
  EXPECT_EQ(SendSteps(schedule, 1, 12), (std::vector<uint64_t>{6, 12}));
}

// With an overlap the update is still applied at 3, 6, 9, 12: the send is tau steps earlier.
TEST(SyncSchedule, OverlapMovesTheSendNotTheApply) {
  const SyncSchedule schedule(6, 1, 2);
  EXPECT_EQ(SendSteps(schedule, 0, 12), (std::vector<uint64_t>{2, 8}));
  EXPECT_EQ(SendSteps(schedule, 1, 12), (std::vector<uint64_t>{5, 11}));
  EXPECT_EQ(schedule.ApplyStep(2), 3u);
  EXPECT_EQ(schedule.ApplyStep(11), 12u);
  EXPECT_EQ(SyncSchedule(10, 1, 3, 4).ApplyStep(11), 15u) << "a worker's own";
  EXPECT_EQ(SyncSchedule(10, 1, 3, 4).OffsetOf(FragmentIndex{0}), SyncSchedule(10, 1, 3).OffsetOf(FragmentIndex{0}));
}

TEST(SyncSchedule, AnOffsetBelowZeroWraps) {
  const SyncSchedule schedule(6, 4, 2);  // t_0 = 3 - 4 = -1
  EXPECT_EQ(schedule.OffsetOf(FragmentIndex{0}), 5u);
  EXPECT_EQ(schedule.OffsetOf(FragmentIndex{1}), 2u);
}

TEST(SyncSchedule, StepZeroIsNeverASend) {
  for (uint32_t h = 1; h <= 8; ++h) EXPECT_FALSE(SyncSchedule(h, 0, 1).IsSendStep(FragmentIndex{0}, 0));
}

TEST(SyncSchedule, OneStepPeriodsSendEveryStep) {
  const SyncSchedule schedule(1, 0, 3);
  for (uint64_t s = 1; s < 5; ++s) {
    for (uint32_t p = 0; p < 3; ++p) EXPECT_TRUE(schedule.IsSendStep(FragmentIndex{p}, s));
  }
}

TEST(SyncSchedule, EveryFragmentIsSentOnceAPeriodAndNextAgrees) {
  for (const uint32_t h : {1u, 2u, 5u, 7u, 30u, 100u}) {
    for (const uint32_t fragments : {1u, 2u, 3u, 9u, 40u}) {
      for (const uint32_t tau : {0u, h / 3, h - 1}) {
        const SyncSchedule schedule(h, tau, fragments);
        for (uint32_t p = 0; p < fragments; ++p) {
          uint32_t sends = 0;
          for (uint64_t s = 5 * h + 1; s <= 6 * h; ++s) sends += schedule.IsSendStep(FragmentIndex{p}, s) ? 1 : 0;
          EXPECT_EQ(sends, 1u) << "H " << h << " tau " << tau << " P " << fragments << " p " << p;
          const uint64_t next = schedule.NextSendStep(FragmentIndex{p}, 0);
          EXPECT_GE(next, 1u);
          EXPECT_LE(next, h);
          EXPECT_TRUE(schedule.IsSendStep(FragmentIndex{p}, next));
          EXPECT_EQ(schedule.NextSendStep(FragmentIndex{p}, next), next);
          EXPECT_EQ(schedule.NextSendStep(FragmentIndex{p}, next + 1), next + h);
        }
      }
    }
  }
}

TEST(SyncSchedule, FragmentsOfOneOffsetAreSentTogether) {
  const SyncSchedule schedule(2, 0, 4);  // offsets 0, 1, 1, 0
  for (const uint32_t p : {0u, 1u, 2u, 3u}) {
    EXPECT_EQ(schedule.IsSendStep(FragmentIndex{p}, 2), p == 0 || p == 3);
    EXPECT_EQ(schedule.IsSendStep(FragmentIndex{p}, 3), p == 1 || p == 2);
  }
}

}  // namespace
}  // namespace atl
