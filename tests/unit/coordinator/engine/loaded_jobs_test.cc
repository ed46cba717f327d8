// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/loaded_jobs.h"

#include <gtest/gtest.h>

#include <memory>

#include "coordinator/engine/job_data.h"
#include "tests/unit/coordinator/engine/small_coordinator.h"

namespace atl {
namespace {

const JobId kJob{"job"};
const absl::Status kOtherwise = absl::FailedPreconditionError("it is not running");

std::shared_ptr<JobData> MakeData(uint64_t epoch = 0) {
  return std::make_shared<JobData>(kJob, epoch, TinySpec("job"));
}

TEST(LoadedJobsTest, JobIsExpectedThenLoadedThenReleased) {
  LoadedJobs jobs;
  EXPECT_EQ(jobs.WhyNotLoaded(kJob, kOtherwise), kOtherwise);
  const uint64_t number = jobs.Expect(kJob);
  EXPECT_TRUE(jobs.IsExpected(kJob, number));
  EXPECT_EQ(jobs.Find(kJob), nullptr);
  EXPECT_TRUE(absl::IsUnavailable(jobs.WhyNotLoaded(kJob, kOtherwise)));
  EXPECT_EQ(jobs.Look().loading, std::vector{kJob});

  const auto data = MakeData();
  EXPECT_TRUE(jobs.Put(data, number));
  EXPECT_EQ(jobs.Find(kJob), data);
  EXPECT_FALSE(jobs.IsExpected(kJob, number));
  EXPECT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs.Look().loaded, std::vector{data});
  EXPECT_TRUE(jobs.Look().loading.empty());

  EXPECT_EQ(jobs.Release(kJob), data);
  EXPECT_EQ(jobs.Find(kJob), nullptr);
  EXPECT_EQ(jobs.size(), 0u);
  EXPECT_EQ(jobs.WhyNotLoaded(kJob, kOtherwise), kOtherwise);
  EXPECT_EQ(jobs.Release(kJob), nullptr);
}

TEST(LoadedJobsTest, RestartedPreparationStoresNothing) {
  LoadedJobs jobs;
  const uint64_t first = jobs.Expect(kJob), second = jobs.Expect(kJob);
  EXPECT_FALSE(jobs.IsExpected(kJob, first));
  EXPECT_FALSE(jobs.Put(MakeData(), first));
  EXPECT_EQ(jobs.Find(kJob), nullptr);
  EXPECT_TRUE(jobs.IsExpected(kJob, second)) << "the other goes on";
  EXPECT_TRUE(jobs.Put(MakeData(1), second));
  EXPECT_EQ(jobs.Find(kJob)->epoch, 1u);
}

TEST(LoadedJobsTest, ReleasedJobStoresNothing) {
  LoadedJobs jobs;
  const uint64_t number = jobs.Expect(kJob);
  EXPECT_EQ(jobs.Release(kJob), nullptr);
  EXPECT_FALSE(jobs.Put(MakeData(), number));
  EXPECT_EQ(jobs.size(), 0u);
}

// A rollback: the loaded state is used until the new one is ready.
TEST(LoadedJobsTest, ReloadedJobStaysUntilReplaced) {
  LoadedJobs jobs;
  const auto old = MakeData(), anew = MakeData(1);
  EXPECT_TRUE(jobs.Put(old, jobs.Expect(kJob)));
  const uint64_t number = jobs.Expect(kJob);
  EXPECT_EQ(jobs.Find(kJob), old);
  EXPECT_TRUE(jobs.Put(anew, number));
  EXPECT_EQ(jobs.Find(kJob), anew);
}

}  // namespace
}  // namespace atl
