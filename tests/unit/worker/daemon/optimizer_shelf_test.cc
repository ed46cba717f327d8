// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/optimizer_shelf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/plan/model_layout.h"
#include "tests/support/manual_clock.h"
#include "tests/unit/common/format/temp_dir.h"
#include "tests/unit/worker/train/tiny_job.h"

namespace atl {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class OptimizerShelfTest : public testing::Test {
 protected:
  OptimizerShelf Shelf(const std::string& job, Duration interval = Seconds(600), const std::string& worker = "w1") {
    return OptimizerShelf({cache_, worker, interval, 10}, JobId{job}, layout_.digest, *files_, clock_, log_);
  }
  std::unique_ptr<Trainer> Trained() {
    auto trainer = *Trainer::Create(spec_, layout_, {.available_bytes = uint64_t{1} << 30}, clock_);
    EXPECT_TRUE(trainer->Step({std::vector<int32_t>(33, 1), 1}, 1e-3)->applied);
    return trainer;
  }
  std::vector<std::string> Kept() const { return *files_->List(cache_ + "/optimizer/w1"); }

  const JobSpec spec_ = TinyJob();
  const ModelLayout layout_ = MakeModelLayout(spec_.model, FragmentPattern::kStrided, 1);
  ManualClock clock_;
  Log log_{{.to_stderr = false}};
  const std::unique_ptr<Files> files_ = MakePosixFiles();
  const TempDir own_;
  const std::string cache_ = own_.path();
};

TEST_F(OptimizerShelfTest, KeepsWhenItIsTimeAndAtTheEnd) {
  OptimizerShelf shelf = Shelf("job");
  const auto trainer = Trained();
  shelf.Keep({5, {}}, false, *trainer);
  EXPECT_THAT(Kept(), IsEmpty());
  clock_.Advance(Seconds(600));
  shelf.Keep({6, {}}, false, *trainer);
  EXPECT_THAT(Kept(), ElementsAre("job.safetensors"));
  std::filesystem::remove_all(cache_ + "/optimizer");
  shelf.Keep({7, {}}, false, *trainer);
  EXPECT_THAT(Kept(), IsEmpty()) << "the interval begins anew";
  shelf.Keep({7, {}}, true, *trainer);
  EXPECT_THAT(Kept(), ElementsAre("job.safetensors"));
}

TEST_F(OptimizerShelfTest, WorkersOfOneCacheKeepTheirOwn) {
  Shelf("job", Seconds(600), "w2").Keep({30, {}}, true, *Trained());
  const auto mine = Trained();
  ASSERT_TRUE(Shelf("job").Begin({30, {}}, *mine).ok());
  EXPECT_EQ(mine->optimizer_steps(), 0u) << "moments of another worker";
  Shelf("another").Keep({30, {}}, true, *Trained());
  const auto theirs = Trained();
  ASSERT_TRUE(Shelf("job", Seconds(600), "w2").Begin({30, {}}, *theirs).ok());
  EXPECT_EQ(theirs->optimizer_steps(), 1u);
}

TEST_F(OptimizerShelfTest, RestoresTheSavedState) {
  Shelf("job").Keep({30, {}}, true, *Trained());
  const auto again = Trained();
  ASSERT_TRUE(Shelf("job").Begin({25, {}}, *again).ok());
  EXPECT_EQ(again->optimizer_steps(), 1u) << "the coordinator may be a little behind";
  ASSERT_TRUE(Shelf("job").Begin({19, {}}, *again).ok());
  EXPECT_EQ(again->optimizer_steps(), 0u) << "a rollback, or another run";
}

TEST_F(OptimizerShelfTest, RollbackDiscardsMomentsOfLostVersions) {
  Shelf("job").Keep({30, {{3}, {3}}}, true, *Trained());
  const auto again = Trained();
  ASSERT_TRUE(Shelf("job").Begin({25, {{3}, {2}}}, *again).ok());
  EXPECT_EQ(again->optimizer_steps(), 0u) << "by no more than what it may be ahead";
  ASSERT_TRUE(Shelf("job").Begin({35, {{4}, {3}}}, *again).ok());
  EXPECT_EQ(again->optimizer_steps(), 1u);
}

// The job was rolled back while the worker was away, and is further than before by now.
TEST_F(OptimizerShelfTest, MomentsOfAnotherCourseAreNotRestored) {
  Shelf("job").Keep({30, {{3}, {3}}, {0, 1}}, true, *Trained());
  const auto again = Trained();
  for (const JobCourse other : {JobCourse{0, 2}, JobCourse{1, 1}}) {
    ASSERT_TRUE(Shelf("job").Begin({60, {{6}, {6}}, other}, *again).ok());
    EXPECT_EQ(again->optimizer_steps(), 0u) << other.line << " " << other.epoch;
  }
  ASSERT_TRUE(Shelf("job").Begin({60, {{6}, {6}}, {0, 1}}, *again).ok());
  EXPECT_EQ(again->optimizer_steps(), 1u);
}

TEST_F(OptimizerShelfTest, KeepsOneJobOnly) {
  Shelf("first").Keep({30, {}}, true, *Trained());
  Shelf("second").Keep({3, {}}, true, *Trained());
  EXPECT_THAT(Kept(), ElementsAre("second.safetensors"));
}

TEST_F(OptimizerShelfTest, AnOptimizerThatHasTakenNoStepIsNotKept) {
  Shelf("job").Keep({30, {}}, true, *Trained());
  const auto fresh = *Trainer::Create(spec_, layout_, {.available_bytes = uint64_t{1} << 30}, clock_);
  std::filesystem::remove_all(cache_ + "/optimizer");
  Shelf("job").Keep({31, {}}, true, *fresh);
  EXPECT_THAT(Kept(), IsEmpty());
}

TEST_F(OptimizerShelfTest, WithoutAnIntervalNothingIsKeptNorTaken) {
  Shelf("job").Keep({30, {}}, true, *Trained());
  const auto trainer = Trained();
  OptimizerShelf off = Shelf("job", Duration{});
  ASSERT_TRUE(off.Begin({30, {}}, *trainer).ok());
  EXPECT_EQ(trainer->optimizer_steps(), 0u);
  std::filesystem::remove_all(cache_ + "/optimizer");
  off.Keep({31, {}}, true, *Trained());
  EXPECT_THAT(Kept(), IsEmpty());
}

TEST_F(OptimizerShelfTest, FailedSaveDoesNotStopTraining) {
  std::filesystem::create_symlink(cache_ + "/nowhere/at/all", cache_ + "/optimizer");
  Shelf("job").Keep({30, {}}, true, *Trained());
  EXPECT_FALSE(log_.Recent(10).empty());
}

}  // namespace
}  // namespace atl
