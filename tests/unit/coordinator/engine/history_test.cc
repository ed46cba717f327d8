// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/history.h"

#include <gtest/gtest.h>

#include "common/plan/limits.h"

namespace atl {
namespace {

TEST(Curve, ThinsItselfAndKeepsTheShape) {
  Curve curve;
  for (uint64_t step = 1; step <= 100'000; ++step) curve.Add({step, 0, static_cast<double>(step)});
  ASSERT_LT(curve.points().size(), limits::kCurvePoints);
  ASSERT_GT(curve.points().size(), limits::kCurvePoints / 4);
  for (size_t i = 1; i < curve.points().size(); ++i) {
    EXPECT_GT(curve.points()[i].step, curve.points()[i - 1].step);
    EXPECT_EQ(curve.points()[i].value, static_cast<double>(curve.points()[i].step));
  }
  EXPECT_GT(curve.points().back().step, 99'000u);
}

TEST(Curve, DropsPointsBeyondAStep) {
  Curve curve;
  for (uint64_t step = 1; step <= 10; ++step) curve.Add({step, 0, 1});
  curve.DropAfter(4);
  curve.Add({5, 0, 2});
  ASSERT_EQ(curve.points().size(), 5u);
  EXPECT_EQ(curve.points().back().value, 2);
}

TEST(History, GivesRevisionsAndResumesAfterThem) {
  History history;
  const JobId job{"tiny"};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(history.AddEvent(job, {.kind = "k"}), static_cast<uint64_t>(i + 1));
  const std::vector<EventLine> after = history.EventsAfter(job, 3, 10);
  ASSERT_EQ(after.size(), 2u);
  EXPECT_EQ(after[0].revision, 4u);
  EXPECT_EQ(history.EventsAfter(job, 0, 2)[0].revision, 4u);  // the newest two, oldest first
  EXPECT_TRUE(history.EventsAfter(JobId{"other"}, 0, 10).empty());
}

TEST(History, KeepsTheNewestEventsOnly) {
  History history;
  const JobId job{"tiny"};
  for (size_t i = 0; i < History::kEventsKept + 10; ++i) history.AddEvent(job, {.kind = "k"});
  EXPECT_EQ(history.EventsAfter(job, 0, 10 * History::kEventsKept).size(), History::kEventsKept);
}

TEST(History, ManyJobsShareABound) {
  History history;
  const auto name = [](int i) { return JobId{"job-" + std::to_string(i)}; };
  const int jobs = 2 * static_cast<int>(History::kEventsKeptInAll / History::kEventsKept);
  for (int i = 0; i < jobs; ++i) {
    for (size_t n = 0; n < History::kEventsKept; ++n) history.AddEvent(name(i), {.kind = "k"});
  }
  size_t all = 0;
  for (int i = 0; i < jobs; ++i) {
    const std::deque<EventLine>& events = history.Find(name(i))->events;
    all += events.size();
    EXPECT_GE(events.size(), History::kEventsKept / 5) << "each has its share";
    EXPECT_EQ(events.back().revision, History::kEventsKept) << "of the newest";
  }
  EXPECT_LE(all, History::kEventsKeptInAll);
}

TEST(History, PastsThatWereReadAreBoundOnce) {
  History history;
  const auto name = [](int i) { return JobId{"job-" + std::to_string(i)}; };
  const int jobs = 2 * static_cast<int>(History::kEventsKeptInAll / History::kEventsKept);
  const auto all = [&] {
    size_t events = 0;
    for (int i = 0; i < jobs; ++i) events += history.Find(name(i))->events.size();
    return events;
  };
  for (int i = 0; i < jobs; ++i) {
    History past;
    for (size_t n = 0; n < History::kEventsKept; ++n) past.AddEvent(name(i), {.kind = "k"});
    history.Adopt(name(i), std::move(past));
  }
  EXPECT_EQ(all(), 2 * History::kEventsKeptInAll);
  history.Bound();
  EXPECT_LE(all(), History::kEventsKeptInAll);
  for (int i = 0; i < jobs; ++i) EXPECT_GE(history.Find(name(i))->events.size(), History::kEventsKept / 5);
}

TEST(History, CurvesOfManyJobsShareABound) {
  History history;
  size_t all = 0;
  const int jobs = 2 * static_cast<int>(History::kPointsKeptInAll / (4 * limits::kCurvePoints));
  for (int i = 0; i < jobs; ++i) {
    const JobId job{"job-" + std::to_string(i)};
    for (uint64_t step = 1; step < 4 * limits::kCurvePoints; ++step)
      history.AddPoint(job, std::string(1, static_cast<char>('a' + step % 4)), {step, 0, 1});
  }
  for (int i = 0; i < jobs; ++i) {
    for (const auto& [curve, kept] : history.Find(JobId{"job-" + std::to_string(i)})->curves) {
      all += kept.points().size();
      EXPECT_GE(kept.points().size(), limits::kCurvePoints / 8) << "each has its share";
      EXPECT_GT(kept.points().back().step, 4 * limits::kCurvePoints - 100) << "up to the newest";
    }
  }
  EXPECT_LE(all, History::kPointsKeptInAll + limits::kCurvePoints);
}

TEST(History, CountsBytesByWorkerAndInAll) {
  History history;
  const JobId job{"tiny"};
  history.CountUpload(job, WorkerId{"a"}, 10);
  history.CountUpload(job, WorkerId{"b"}, 5);
  history.CountDownload(job, WorkerId{"a"}, 7);
  history.CountDownload(job, WorkerId{}, 3);
  const JobHistory* of_job = history.Find(job);
  ASSERT_NE(of_job, nullptr);
  EXPECT_EQ(of_job->uploaded_total, 15u);
  EXPECT_EQ(of_job->downloaded_total, 10u);
  EXPECT_EQ(of_job->uploaded_bytes.at(WorkerId{"a"}), 10u);
  EXPECT_EQ(of_job->downloaded_bytes.count(WorkerId{}), 0u);
}

TEST(History, ForgetsAWorkerAndKeepsTheTotals) {
  History history;
  const JobId job{"tiny"};
  history.CountUpload(job, WorkerId{"a"}, 10);
  history.CountUpload(job, WorkerId{"b"}, 5);
  history.CountDownload(job, WorkerId{"a"}, 7);
  history.Forget(WorkerId{"a"});
  const JobHistory& left = *history.Find(job);
  EXPECT_EQ(left.uploaded_bytes, (std::map<WorkerId, uint64_t>{{WorkerId{"b"}, 5}}));
  EXPECT_TRUE(left.downloaded_bytes.empty());
  EXPECT_EQ(left.uploaded_total, 15u);
  EXPECT_EQ(left.downloaded_total, 7u);
}

}  // namespace
}  // namespace atl
