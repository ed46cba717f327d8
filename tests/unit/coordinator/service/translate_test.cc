// SPDX-License-Identifier: Apache-2.0
// A worker's measurements, and the planner's figures next to them.
#include "coordinator/service/translate.h"

#include <gtest/gtest.h>

#include <limits>

#include "common/telemetry/catalogue.h"

namespace atl {
namespace {

WorkerView Worker(std::vector<MetricSample> samples) {
  WorkerView worker;
  worker.worker = {"rome-1"};
  worker.last.step_ns = 500'000'000;
  worker.last.metrics = std::move(samples);
  return worker;
}

JobSpec Spec() {
  JobSpec spec;
  spec.sync.inner_steps = 10;
  spec.sync.overlap_steps = 0;
  spec.sync.upload_codec = spec.sync.download_codec = CodecKind::kFp32;
  return spec;
}

TEST(WorkerStatus, ShowsTheMeasuresOfTheHeartbeat) {
  const v1::WorkerStatus status = ToProto(Worker({{HeartbeatName(Metric::kComputeUtilization), 0.75},
                                                  {HeartbeatName(Metric::kUploadRate), 4000},
                                                  {HeartbeatName(Metric::kDownloadRate), 2000},
                                                  {HeartbeatName(Metric::kUploadError), 0.125}}),
                                          nullptr, nullptr);
  EXPECT_EQ(status.compute_utilization_ratio(), 0.75);
  EXPECT_EQ(status.upload_bytes_per_second(), 4000);
  EXPECT_EQ(status.download_bytes_per_second(), 2000);
  EXPECT_EQ(status.upload_error_ratio(), 0.125);
}

TEST(WorkerStatus, SaysWhyNoRoundWaitsForIt) {
  WorkerView worker = Worker({});
  EXPECT_FALSE(ToProto(worker, nullptr, nullptr).not_waited_for());
  worker.link_too_slow = "the link of worker w carries 1.0 kB/s up";
  worker.not_waited_for = true;
  EXPECT_EQ(ToProto(worker, nullptr, nullptr).link_too_slow(), worker.link_too_slow);
  EXPECT_TRUE(ToProto(worker, nullptr, nullptr).not_waited_for());
}

TEST(WorkerStatus, ShowsTheRemarksOfTheScreens) {
  WorkerView worker = Worker({});
  EXPECT_EQ(ToProto(worker, nullptr, nullptr).screened(), "");
  worker.screened = "1 strike in fragment 0, the newest: it is large";
  EXPECT_EQ(ToProto(worker, nullptr, nullptr).screened(), worker.screened);
  worker.state = WorkerState::kQuarantined;
  EXPECT_EQ(ToProto(worker, nullptr, nullptr).state(), "quarantined");
}

// The last report of a silent worker is not shown as its current state.
TEST(WorkerStatus, ShowsHowLongAWorkerIsSilent) {
  WorkerView worker = Worker({});
  worker.state = WorkerState::kTraining;
  worker.connected = true;
  worker.last.activity = WorkerActivity::kTraining;
  worker.last.waiting_for = "update of fragment 0";
  const JobSpec spec = Spec();
  EXPECT_EQ(ToProto(worker, nullptr, &spec).activity(), "training");
  EXPECT_EQ(ToProto(worker, nullptr, &spec).waiting_for(), "update of fragment 0");
  EXPECT_GT(ToProto(worker, nullptr, &spec).tokens_per_second(), 0);
  worker.state = WorkerState::kSilent;
  worker.silence = "no heartbeat for 6 s";
  const v1::WorkerStatus status = ToProto(worker, nullptr, &spec);
  EXPECT_EQ(status.state(), "silent");
  EXPECT_EQ(status.activity(), "");
  EXPECT_EQ(status.waiting_for(), "no heartbeat for 6 s");
  EXPECT_EQ(status.tokens_per_second(), 0);
}

TEST(WorkerStatus, OmitsUnmeasuredValues) {
  const v1::WorkerStatus status = ToProto(Worker({}), nullptr, nullptr);
  EXPECT_FALSE(status.has_compute_utilization_ratio());
  EXPECT_FALSE(status.has_upload_bytes_per_second());
  EXPECT_FALSE(status.has_download_bytes_per_second());
  EXPECT_FALSE(status.has_upload_error_ratio());
}

TEST(FragmentStatus, ShowsTheMeasuresOfTheNewestRound) {
  JobGlance glance;
  glance.view.record.job = {"tiny"};
  glance.view.fragments.resize(2);
  RoundMeasures measures;
  measures.merged_norm = 2;
  measures.outer_step_norm = 5;
  measures.mean_cosine = 0.75;
  measures.momentum_mean = -0.5;
  measures.download_error = 0.25;
  measures.staleness_steps = 3;
  measures.contributions.push_back(
      {.worker = {"a"}, .weight = 1, .norm = 4, .cosine_to_merged = 0.75, .staleness_steps = 3, .upload_error = 0.125});
  glance.totals.measures[FragmentIndex{1}] = measures;
  const v1::Job job = ToProto(glance, 10, {5, 5}, true);
  EXPECT_FALSE(job.fragments(0).has_newest());
  const v1::RoundDiagnostics& newest = job.fragments(1).newest();
  EXPECT_EQ(newest.pseudo_gradient_norm(), 2);
  EXPECT_EQ(newest.outer_step_gain_ratio(), 2.5);
  EXPECT_EQ(newest.mean_cosine_ratio(), 0.75);
  EXPECT_EQ(newest.momentum_alignment_ratio(), -0.5);
  EXPECT_FALSE(newest.has_outer_step_alignment_ratio());
  EXPECT_EQ(newest.download_error_ratio(), 0.25);
  EXPECT_EQ(newest.staleness_steps(), 3u);
  ASSERT_EQ(newest.contributions_size(), 1);
  EXPECT_EQ(newest.contributions(0).worker(), "workers/a");
  EXPECT_EQ(newest.contributions(0).norm(), 4);
  EXPECT_EQ(newest.contributions(0).upload_error_ratio(), 0.125);
  EXPECT_EQ(ToProto(glance, 10, {5, 5}, false).fragments(1).newest().contributions_size(), 0) << "not in lists";
}

TEST(WorkerStatus, SaysWhenItsContributionsPointAgainstTheOthers) {
  WorkerView worker = Worker({});
  worker.worker = {"e"};
  worker.screened = "1 strike";
  JobHistory history;
  history.measures[FragmentIndex{3}].contributions = {{.worker = {"a"}, .others_mean = 0.4},
                                                      {.worker = {"e"}, .others_mean = -0.9, .against_others = true}};
  EXPECT_EQ(ToProto(worker, &history, nullptr).screened(),
            "1 strike; its newest 8 contributions to fragment 3 point against those of the others, with a mean cosine "
            "of -0.90");
  worker.worker = {"a"};
  EXPECT_EQ(ToProto(worker, &history, nullptr).screened(), "1 strike");
}

// 4,000 bytes up at 4,000 bytes a second, and down at 2,000, after ten steps of half a second.
TEST(PlannedUtilization, NeedsStepTimeAndBothRates) {
  const MetricSample up{HeartbeatName(Metric::kUploadRate), 4000}, down{HeartbeatName(Metric::kDownloadRate), 2000};
  const auto planned = PlannedUtilization(Worker({up, down}), Spec(), {1000});
  ASSERT_TRUE(planned.has_value());
  EXPECT_NEAR(*planned, 5.0 / 8, 1e-9);
  EXPECT_FALSE(PlannedUtilization(Worker({up}), Spec(), {1000}).has_value());
  EXPECT_FALSE(PlannedUtilization(Worker({down}), Spec(), {1000}).has_value());
  EXPECT_FALSE(PlannedUtilization(Worker({up, down}), Spec(), {}).has_value());
  WorkerView fresh = Worker({up, down});
  fresh.last.step_ns = 0;
  EXPECT_FALSE(PlannedUtilization(fresh, Spec(), {1000}).has_value());
}

// A heartbeat comes from outside: no number in it may stop the coordinator.
TEST(PlannedUtilization, DoesNotTrustTheRates) {
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double rate : {-1.0, 0.0, infinite, std::numeric_limits<double>::quiet_NaN()}) {
    const MetricSample up{HeartbeatName(Metric::kUploadRate), rate}, down{HeartbeatName(Metric::kDownloadRate), 2000};
    EXPECT_FALSE(PlannedUtilization(Worker({up, down}), Spec(), {1000}).has_value()) << rate;
  }
}

}  // namespace
}  // namespace atl
