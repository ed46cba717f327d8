// What a session keeps when it leaves.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/worker/session/session_fixture.h"

namespace atl {
namespace {

// Moments that it took up and never used are kept as of where the job stood then, and not as of no step.
TEST_F(SessionTest, OneThatLeavesBeforeItsFirstStepKeepsWhereItsMomentsStand) {
  Join(/*clock_step=*/40);
  session_->RequestLeave("SIGTERM");
  Turn(3);
  EXPECT_EQ(factory_.kept, std::vector<uint64_t>{40});
}

TEST_F(SessionTest, SoDoesOneThatIsDrained) {
  Join(/*clock_step=*/40);
  Post(DrainRequested{"its machine is to be mended"});
  Turn(3);
  EXPECT_EQ(factory_.kept, std::vector<uint64_t>{40});
}

}  // namespace
}  // namespace atl
