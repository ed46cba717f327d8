// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/step_watch.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/manual_clock.h"

namespace atl {
namespace {

const JobId kJob{"tiny"};
constexpr Duration kSlow = Seconds(100);

class StepWatchTest : public testing::Test {
 protected:
  size_t Told(const std::string& event) const {
    size_t told = 0;
    for (const LogLine& line : log_.Recent(1000)) told += line.event == event ? 1 : 0;
    return told;
  }
  // Looks every second, as the watching thread does. Returns the last result.
  absl::Status Pass(Duration time) {
    absl::Status said;
    for (const Instant end = clock_.Now() + time; clock_.Now() < end; said = watch_.Look()) clock_.Advance(Seconds(1));
    return said;
  }
  void Steps(int count, Duration each, const JobId& job = kJob) {
    for (int i = 0; i < count; ++i) {
      watch_.Begins(job, TrainWork::kStep, kSlow);
      EXPECT_EQ(Pass(each), absl::OkStatus());
      watch_.Ended();
    }
  }

  ManualClock clock_;
  Log log_{{.to_stderr = false}};
  StepWatch watch_{clock_, log_};
};

TEST_F(StepWatchTest, HangingStepIsLoggedEveryMinuteThenTimesOut) {
  Steps(3, Seconds(2));
  watch_.Begins(kJob, TrainWork::kStep, kSlow);
  EXPECT_EQ(Pass(Seconds(59)), absl::OkStatus());
  EXPECT_EQ(Told("step takes long"), 0u);
  EXPECT_EQ(Pass(Seconds(540)), absl::OkStatus());
  EXPECT_EQ(Told("step takes long"), 9u);
  const absl::Status given_up = Pass(Seconds(1));
  EXPECT_EQ(given_up.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(given_up.message(),
            "a step of job tiny has been running for 600 s, a step usually takes 2 s: the device or its driver hangs; "
            "check the system's log, then restart the worker");
}

TEST_F(StepWatchTest, EndOfASlowStepIsLogged) {
  Steps(1, Seconds(1));
  watch_.Begins(kJob, TrainWork::kStep, kSlow);
  EXPECT_EQ(Pass(Seconds(100)), absl::OkStatus());
  watch_.Ended();
  EXPECT_EQ(Told("step ended"), 1u);
  EXPECT_EQ(Pass(Seconds(1000)), absl::OkStatus()) << "nothing is under way";
}

TEST_F(StepWatchTest, SlowStepsHaveTheirTime) {
  Steps(5, Seconds(50));
  watch_.Begins(kJob, TrainWork::kStep, kSlow);
  EXPECT_EQ(Pass(Seconds(499)), absl::OkStatus());
  EXPECT_EQ(Told("step takes long"), 0u);
  EXPECT_EQ(Pass(Seconds(500)), absl::OkStatus());
  EXPECT_EQ(Told("step takes long"), 9u);
  EXPECT_FALSE(Pass(Seconds(1)).ok());
}

// The first step selects kernels and records graphs: only the job's size limits its duration.
TEST_F(StepWatchTest, TheFirstStepOfAJobHasLongerByItsSize) {
  Steps(5, Seconds(1));
  watch_.Begins(JobId{"other"}, TrainWork::kStep, kSlow);
  EXPECT_EQ(Pass(Seconds(599)), absl::OkStatus());
  EXPECT_EQ(Told("step takes long"), 0u);
  EXPECT_EQ(Pass(Seconds(3000)), absl::OkStatus());
  EXPECT_EQ(Told("step takes long"), 50u);
  EXPECT_EQ(Pass(Seconds(300)), absl::OkStatus());
  const absl::Status given_up = Pass(Seconds(1));
  EXPECT_EQ(given_up.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(given_up.message(),
            "the first step of job other has been running for 3900 s, a step usually takes 100 s on a very slow "
            "machine: the device or its driver hangs; check the system's log, then restart the worker");
}

// The durations of evaluation pieces and merges do not affect the limit for steps.
TEST_F(StepWatchTest, HangingWorkBetweenStepsTimesOut) {
  Steps(5, Seconds(1));
  watch_.Begins(kJob, TrainWork::kBetweenSteps, kSlow);
  EXPECT_EQ(Pass(Seconds(599)), absl::OkStatus());
  EXPECT_EQ(Told("work takes long"), 0u);
  EXPECT_EQ(Pass(Seconds(3300)), absl::OkStatus());
  EXPECT_EQ(Told("work takes long"), 55u);
  const absl::Status given_up = Pass(Seconds(1));
  EXPECT_EQ(given_up.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(given_up.message(),
            "a merge or evaluation between two steps of job tiny has been running for 3900 s, a step takes 100 s on a "
            "very slow machine: the device or its driver hangs; check the system's log, then restart the worker");
  watch_.Ended();
  watch_.Begins(kJob, TrainWork::kStep, kSlow);
  EXPECT_EQ(Pass(Seconds(599)), absl::OkStatus());
  EXPECT_FALSE(Pass(Seconds(1)).ok()) << "where a step takes a second";
}

// SIGSTOP, or a suspended machine: the watching thread did not run either.
TEST_F(StepWatchTest, AProcessThatWasStoppedIsNotHung) {
  Steps(5, Seconds(1));
  watch_.Begins(kJob, TrainWork::kStep, kSlow);
  clock_.Advance(Seconds(3600));
  EXPECT_EQ(Pass(Seconds(50)), absl::OkStatus());
  EXPECT_EQ(Told("step takes long"), 0u);
}

}  // namespace
}  // namespace atl
