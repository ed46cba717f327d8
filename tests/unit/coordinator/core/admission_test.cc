// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/admission.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

constexpr uint64_t kMega = 1'000'000;
const WorkerId kWorker{"w"};
constexpr Duration kPeriod = Seconds(10);
// Four fragments of 10 MB each way: 4 MB/s.
constexpr PeriodTraffic kTraffic{40 * kMega, 40 * kMega, 10 * kMega, 10 * kMega};

LinkRates Megabytes(uint64_t up, uint64_t down) { return {up * kMega, down * kMega}; }

bool Admitted(const PeriodTraffic& traffic, const LinkRates& rates, bool admitted = true) {
  return JudgeLink(kWorker, traffic, kPeriod, rates, admitted).admitted;
}

TEST(Admission, WhatFitsIntoThePeriodIsAdmitted) {
  EXPECT_TRUE(Admitted(kTraffic, Megabytes(4, 4), false));
  EXPECT_FALSE(Admitted(kTraffic, Megabytes(3, 4), false)) << "upload";
  EXPECT_FALSE(Admitted(kTraffic, Megabytes(4, 3), false)) << "download";
}

TEST(Admission, ARefusalNamesWorkerAndRates) {
  const LinkVerdict verdict = JudgeLink(kWorker, kTraffic, kPeriod, {1'250'000, 820'000}, true);
  EXPECT_FALSE(verdict.admitted);
  EXPECT_EQ(
      verdict.reason,
      "the link of worker w carries 1.2 MB/s up and 820.0 kB/s down, and 4.0 MB/s up and 4.0 MB/s down are needed "
      "to move 40 MB up and 40 MB down in its period of 10 s");
  EXPECT_TRUE(JudgeLink(kWorker, kTraffic, kPeriod, verdict.needed, false).admitted) << "the told figures suffice";
  EXPECT_EQ(JudgeLink(kWorker, kTraffic, kPeriod, Megabytes(9, 9), true).reason, "");
}

// Between the needed rate and four fifths of it the verdict does not change.
TEST(Admission, DoesNotFlap) {
  const LinkRates between{3'500'000, 9 * kMega}, below{3'100'000, 9 * kMega};
  EXPECT_TRUE(Admitted(kTraffic, between, true));
  EXPECT_FALSE(Admitted(kTraffic, between, false));
  EXPECT_FALSE(Admitted(kTraffic, below, true));
  EXPECT_TRUE(Admitted(kTraffic, Megabytes(4, 9), false));
}

TEST(Admission, WhatIsNotMeasuredSpeaksAgainstNobody) {
  EXPECT_TRUE(Admitted(kTraffic, {0, 0}, false));
  EXPECT_TRUE(Admitted(kTraffic, {0, 9 * kMega}, false));
  EXPECT_FALSE(Admitted(kTraffic, {0, kMega}));
  EXPECT_TRUE(Admitted({}, {1, 1}, false)) << "the bytes are not known";
  EXPECT_TRUE(JudgeLink(kWorker, kTraffic, Duration{}, {1, 1}, false).admitted) << "the step time is not known";
}

TEST(Admission, OneFragmentGoesUpThenDown) {
  const PeriodTraffic one{40 * kMega, 40 * kMega, 40 * kMega, 40 * kMega};
  EXPECT_EQ(TransferTime(one, Megabytes(8, 8)), Seconds(10));
  EXPECT_EQ(TransferTime(kTraffic, Megabytes(8, 8)), Seconds(5));
  EXPECT_TRUE(Admitted(one, Megabytes(8, 8), false));
  EXPECT_FALSE(Admitted(one, Megabytes(7, 8), false));
  EXPECT_TRUE(Admitted(one, Megabytes(5, 40), false)) << "what one direction lacks the other may have";
  EXPECT_TRUE(Admitted(one, JudgeLink(kWorker, one, kPeriod, Megabytes(1, 1), true).needed, false));
}

TEST(Admission, NothingRunsOver) {
  const PeriodTraffic huge{UINT64_MAX / 4, UINT64_MAX / 4, UINT64_MAX / 4, UINT64_MAX / 4};
  EXPECT_FALSE(JudgeLink(kWorker, huge, Nanoseconds(1), {1, 1}, true).admitted);
  EXPECT_FALSE(JudgeLink(kWorker, huge, Seconds(3600), {UINT64_MAX, UINT64_MAX}, true).admitted);
  EXPECT_TRUE(JudgeLink(kWorker, kTraffic, Seconds(86'400), {UINT64_MAX, UINT64_MAX}, false).admitted);
  EXPECT_EQ(TransferTime(kTraffic, {1, 1}), Seconds(2 * 86'400)) << "a day for each term";
}

TEST(Admission, RatesAreReadable) {
  EXPECT_EQ(RateText(512), "0.5 kB/s");
  EXPECT_EQ(RateText(999'999), "999.9 kB/s");
  EXPECT_EQ(RateText(12'500'000), "12.5 MB/s");
}

}  // namespace
}  // namespace atl
