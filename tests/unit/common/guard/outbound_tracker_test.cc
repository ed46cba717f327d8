// SPDX-License-Identifier: Apache-2.0
// Where the guard may insert its own frames between gRPC's, and which streams gRPC has ended.
#include "common/guard/outbound_tracker.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/common/guard/http2_bytes.h"

namespace atl::guard {
namespace {

TEST(OutboundTracker, FindsBordersAndEndsWhereverReadsEnd) {
  const std::string bytes =
      Frame(FrameType::kSettings, 0, 0) + Frame(FrameType::kHeaders, 0, 1, "a") +
      Frame(FrameType::kContinuation, kEndHeaders, 1, "b") + Frame(FrameType::kData, kEndStream, 3, "data") +
      Frame(FrameType::kResetStream, 0, 5, "abcd") + Frame(FrameType::kHeaders, kEndHeaders | kEndStream, 1, "c");
  for (size_t step = 1; step <= bytes.size(); ++step) {
    OutboundTracker tracker;
    std::vector<uint32_t> ended;
    EXPECT_TRUE(tracker.at_boundary());
    for (size_t at = 0; at < bytes.size(); at += step)
      (void)tracker.Scan(AsSpan(std::string_view(bytes).substr(at, step)), [&](uint32_t s) { ended.push_back(s); });
    EXPECT_TRUE(tracker.at_boundary());
    EXPECT_EQ(ended, (std::vector<uint32_t>{3, 5, 1})) << step;
  }
}

TEST(OutboundTracker, NoBorderWithinABlockOrAFrame) {
  const auto ignore = [](uint32_t) {};
  OutboundTracker tracker;
  const std::string settings = Frame(FrameType::kSettings, 0, 0), block = Frame(FrameType::kHeaders, 0, 1, "abc");
  EXPECT_EQ(tracker.Scan(AsSpan(settings + block), ignore), settings.size());
  EXPECT_FALSE(tracker.at_boundary());
  const std::string rest = Frame(FrameType::kContinuation, kEndHeaders, 1, "d"),
                    data = Frame(FrameType::kData, 0, 1, "x");
  EXPECT_EQ(tracker.Scan(AsSpan(rest + data.substr(0, 9)), ignore), rest.size());
  EXPECT_FALSE(tracker.at_boundary());
  EXPECT_EQ(tracker.Scan(AsSpan(data.substr(9)), ignore), 1u);
}

}  // namespace
}  // namespace atl::guard
