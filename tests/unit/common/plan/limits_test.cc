// SPDX-License-Identifier: Apache-2.0
#include "common/plan/limits.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

TEST(Limits, AMissedHeartbeatIsNotALostWorker) {
  EXPECT_LT(limits::kHeartbeatInterval * 2, limits::kMembershipTimeout);
}

TEST(Limits, AFrameFitsAMessage) { EXPECT_LT(limits::kFramePayloadBytes, limits::kMessageBytes); }

}  // namespace
}  // namespace atl
