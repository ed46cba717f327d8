// SPDX-License-Identifier: Apache-2.0
// The output of pause and resume to the machine's owner.
#include "worker/daemon/owner_pause.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tests/support/manual_clock.h"
#include "tests/unit/common/format/temp_dir.h"

namespace atl {
namespace {

using testing::HasSubstr;

class OwnerPause : public testing::Test {
 protected:
  absl::Status Run(bool resume, const std::string& cache_dir) {
    std::ostringstream out;
    absl::Status done = RunOwnerCommand({.resume = resume, .name = "w2", .cache_dir = cache_dir}, clock_, out);
    said_ = out.str();
    return done;
  }

  const ManualClock clock_;
  const TempDir own_;
  const std::string cache_ = own_.path();
  std::string said_;
};

TEST_F(OwnerPause, NamesTheCommandThatEndsIt) {
  ASSERT_TRUE(Run(false, cache_).ok());
  EXPECT_THAT(said_, HasSubstr("end the pause with: atoll-worker resume --cache-dir " + cache_));
  EXPECT_TRUE(PausedUntil(cache_, 0).has_value());
  ASSERT_TRUE(Run(true, cache_).ok());
  EXPECT_THAT(said_, HasSubstr("worker 'w2' is no longer paused"));
  EXPECT_FALSE(PausedUntil(cache_, 0).has_value());
}

TEST_F(OwnerPause, MissingCacheIsRefused) {
  const std::string mistyped = cache_ + "/w3";
  for (const bool resume : {false, true}) {
    const absl::Status refused = Run(resume, mistyped);
    EXPECT_EQ(refused.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("--cache-dir " + mistyped + ": the directory does not exist"));
    EXPECT_EQ(said_, "");
    EXPECT_FALSE(std::filesystem::exists(mistyped));
  }
}

}  // namespace
}  // namespace atl
