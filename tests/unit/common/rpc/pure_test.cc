// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "common/plan/limits.h"
#include "common/rpc/backoff.h"
#include "common/rpc/channel.h"
#include "common/rpc/frame_size.h"
#include "common/rpc/receiver_buckets.h"
#include "common/rpc/rpc_status.h"
#include "common/rpc/token_bucket.h"
#include "tests/support/manual_clock.h"

namespace atl {
namespace {

TEST(BackoffTest, GrowsToTheMaximumWithinItsJitterAndIsSeeded) {
  Backoff a({Milliseconds(100), Seconds(5), 200, 20}, 1), b({Milliseconds(100), Seconds(5), 200, 20}, 1),
      c({Milliseconds(100), Seconds(5), 200, 20}, 2);
  int64_t middle = Milliseconds(100).ns;
  bool differs = false;
  for (int i = 0; i < 12; ++i) {
    const Duration wait = a.Next();
    EXPECT_EQ(wait, b.Next());
    differs |= wait != c.Next();
    EXPECT_GE(wait.ns, middle * 8 / 10) << i;
    EXPECT_LE(wait.ns, std::min(middle * 12 / 10, Seconds(5).ns)) << i;
    middle = std::min(middle * 2, Seconds(5).ns);
  }
  EXPECT_TRUE(differs);
  a.Reset();
  EXPECT_LE(a.Next(), Milliseconds(120));
}

TEST(TokenBucketTest, HoldsItsRateInEveryWindow) {
  Instant now{0};
  TokenBucket bucket(1000, 500, now);
  uint64_t sent = 0;
  while (now < Instant{Seconds(10).ns}) {
    now = now + bucket.Reserve(300, now);
    sent += 300;
    EXPECT_LE(sent, 500 + static_cast<uint64_t>(ToSeconds(now - Instant{0}) * 1000 + 1));
  }
  EXPECT_GE(sent, 9'900u);
  EXPECT_LE(sent, 10'500u);
}

TEST(TokenBucketTest, OddRatesLoseNothingToRounding) {
  Instant now{0};
  TokenBucket bucket(7, 7, now);
  EXPECT_EQ(bucket.Reserve(7, now).ns, 0);
  for (int i = 0; i < 231; ++i) now = now + bucket.Reserve(1, now);
  EXPECT_GE(now - Instant{0}, Seconds(33));  // 231 bytes at 7 bytes a second
  EXPECT_LE(now - Instant{0}, Seconds(33) + Nanoseconds(231));
}

TEST(TokenBucketTest, NoCapNeverWaits) {
  TokenBucket bucket(0, 0, {0});
  EXPECT_EQ(bucket.Reserve(UINT64_MAX, {0}).ns, 0);
}

TEST(PacedFrameTest, ASlowCapMeansSmallFrames) {
  EXPECT_EQ(PacedFrameBytes(0), limits::kFramePayloadBytes);
  EXPECT_EQ(PacedFrameBytes(1), 4096u);
  EXPECT_EQ(PacedFrameBytes(500'000), 50'000u);
  EXPECT_EQ(PacedFrameBytes(UINT64_MAX), limits::kFramePayloadBytes);
}

TEST(FrameSizeTest, FollowsWhatTheLinkTakesAtOnce) {
  FrameSize size;
  const auto send = [&size](Duration took) {
    size.Begin({5});
    size.Sent(Instant{5} + took);
  };
  EXPECT_EQ(size.BytesAt(0), FrameSize::kFirst) << "small, until the link is known";
  for (int i = 0; i < 20; ++i) send(Milliseconds(1));
  EXPECT_EQ(size.BytesAt(0), limits::kFramePayloadBytes);
  send(Milliseconds(50));
  EXPECT_EQ(size.BytesAt(0), limits::kFramePayloadBytes) << "neither quick nor slow";
  for (int i = 0; i < 20; ++i) send(Seconds(1));
  EXPECT_EQ(size.BytesAt(0), FrameSize::kLeast);
}

TEST(FrameSizeTest, FramesMeetAtEveryMultipleOfTheLargest) {
  for (const int late : {0, 1, 5}) {
    FrameSize size;
    std::set<uint64_t> begins;
    int sent = 0;
    for (uint64_t offset = 0; offset < 8 * FrameSize::kMost; offset += size.BytesAt(offset)) {
      begins.insert(offset);
      size.Begin({5});
      size.Sent(Instant{5} + Milliseconds(sent++ < late ? 50 : 1));
    }
    for (uint64_t i = 0; i < 8; ++i) EXPECT_TRUE(begins.contains(i * FrameSize::kMost)) << late << " " << i;
  }
}

TEST(SharedBucketTest, ANewRateBeginsWithAnEmptyBucket) {
  ManualClock clock;
  SharedBucket bucket(0, clock);
  const auto wait = [&](uint64_t bytes) { return bucket.Reserve(bytes) - clock.Now(); };
  const uint64_t before = bucket.frame_bytes();
  EXPECT_EQ(wait(before).ns, 0);
  bucket.SetRate(100'000);
  EXPECT_EQ(bucket.rate_bytes_per_second(), 100'000u);
  EXPECT_EQ(bucket.frame_bytes(), PacedFrameBytes(100'000));
  EXPECT_EQ(wait(10'000), Milliseconds(100));
  EXPECT_EQ(wait(before), Milliseconds(300)) << "cut before the rate was lowered: a full bucket";
  clock.Advance(Milliseconds(400));
  EXPECT_EQ(wait(10'000).ns, 0);
  bucket.SetRate(100'000);
  clock.Advance(Milliseconds(100));
  EXPECT_EQ(wait(10'000).ns, 0) << "the same rate takes nothing away";
  bucket.SetRate(0);
  EXPECT_EQ(wait(before).ns, 0);
}

// Each transfer asks for its next frame when the previous one is sent.
TEST(SharedBucketTest, SmallFramesKeepNobodyWaiting) {
  ManualClock clock;
  SharedBucket bucket(12'500'000, clock);
  struct Taker {
    uint64_t frame, sent = 0;
    Instant due{};
  };
  std::vector<Taker> takers = {{uint64_t{512} << 10}, {uint64_t{512} << 10}, {bucket.frame_bytes()}};
  for (Taker& taker : takers) taker.due = bucket.Reserve(taker.frame);
  while (clock.Now() < Instant{Seconds(60).ns}) {
    for (Taker& taker : takers) {
      if (clock.Now() < taker.due) continue;
      taker.sent += taker.frame;
      taker.due = bucket.Reserve(taker.frame);
      EXPECT_LE(taker.due - clock.Now(), Milliseconds(300)) << "longer than a frame of each takes";
    }
    clock.Advance(Milliseconds(1));
  }
  EXPECT_GE(takers[2].sent, 2 * takers[0].sent * 9 / 10) << "a frame of each in turn";
  EXPECT_GE(takers[0].sent + takers[1].sent + takers[2].sent, uint64_t{12'500'000} * 60 * 95 / 100);
}

TEST(ReceiverBucketsTest, AllThatOneReceiverGetsSharesItsCap) {
  ManualClock clock;
  ReceiverBuckets buckets(clock, 8);
  EXPECT_EQ(buckets.Of({"a"}, 0), nullptr);
  EXPECT_EQ(buckets.Of({}, 1000), nullptr);
  const uint64_t frame = PacedFrameBytes(100'000);
  const auto wait = [&](const char* of) { return buckets.Of({of}, 100'000)->Reserve(frame) - clock.Now(); };
  EXPECT_EQ(wait("a").ns, 0);
  EXPECT_EQ(wait("a").ns, 0);
  EXPECT_EQ(wait("a"), Milliseconds(100)) << "a new call brings no new burst";
  EXPECT_EQ(wait("b").ns, 0) << "each has its own";
  clock.Advance(Milliseconds(200));
  EXPECT_EQ(wait("a").ns, 0);
  EXPECT_EQ(buckets.Of({"a"}, 200'000)->rate_bytes_per_second(), 200'000u) << "the newest wish counts";
  EXPECT_EQ(buckets.remembered(), 2u);
}

TEST(ReceiverBucketsTest, RemembersNoMoreThanItMay) {
  ManualClock clock;
  ReceiverBuckets buckets(clock, 2);
  const auto held = buckets.Of({"a"}, 1000);
  (void)buckets.Of({"b"}, 1000);
  const auto other = buckets.Of({"c"}, 1000);
  EXPECT_EQ(buckets.remembered(), 2u);
  EXPECT_EQ(buckets.Of({"a"}, 1000), held) << "who receives stays";
  EXPECT_NE(buckets.Of({"d"}, 1000), nullptr) << "still capped, for its call";
  EXPECT_EQ(buckets.remembered(), 2u);
}

TEST(RpcStatusTest, EveryCodeTravelsWithItsDetails) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status = WithViolations(WithErrorInfo(absl::Status(static_cast<absl::StatusCode>(code), "why"),
                                                             {"STALE", {{"have", "3"}, {"want", "4"}}}),
                                               {{"spec.a", "is wrong"}, {"spec.b", "too"}});
    const absl::Status back = FromGrpc(ToGrpc(status));
    EXPECT_EQ(static_cast<int>(back.code()), code);
    EXPECT_EQ(back.message(), "why");
    EXPECT_EQ(ErrorInfoOf(back)->reason, "STALE");
    EXPECT_EQ(ErrorInfoOf(back)->metadata, (std::map<std::string, std::string>{{"have", "3"}, {"want", "4"}}));
    ASSERT_EQ(ViolationsOf(back).size(), 2u);
    EXPECT_EQ(ViolationsOf(back)[1].field, "spec.b");
  }
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_EQ(WithErrorInfo(absl::OkStatus(), {"X", {}}), absl::OkStatus());
}

TEST(RpcStatusTest, AStatusWithoutAReasonGetsTheCodesName) {
  EXPECT_EQ(ErrorInfoOf(FromGrpc(ToGrpc(absl::NotFoundError("x"))))->reason, "NOT_FOUND");
  EXPECT_FALSE(ErrorInfoOf(absl::NotFoundError("x")).has_value());
}

TEST(RpcStatusTest, WhatDoesNotFitIsCutWithANote) {
  const std::vector<FieldViolation> violations(100, {"spec.a", "is \xFF wrong " + std::string(200, 'x')});
  const absl::Status back = FromGrpc(ToGrpc(WithViolations(absl::NotFoundError(std::string(9000, 'x')), violations)));
  EXPECT_THAT(std::string(back.message()), testing::EndsWith("xxx..."));
  const std::vector<FieldViolation> shown = ViolationsOf(back);
  ASSERT_GT(shown.size(), 5u);
  EXPECT_THAT(shown[0].description, testing::StartsWith("is ? wrong x"));
  EXPECT_EQ(shown.back().field, "...");
  EXPECT_EQ(shown.back().description, absl::StrCat("and ", 100 - (shown.size() - 1), " more fields"));
  const grpc::Status cut = ToGrpc(absl::NotFoundError(std::string(4000, 'x') + "\xC3\xA9"));
  EXPECT_EQ(cut.error_message(), ToGrpc(absl::NotFoundError(cut.error_message())).error_message());
  EXPECT_EQ(ErrorInfoOf(back)->reason, "NOT_FOUND");
}

TEST(RpcStatusTest, ForeignDetailsDoNoHarm) {
  for (const std::string& details :
       {std::string("\x1a\xff\xff\xff\xff\x7f"), std::string("rubbish"), std::string(3, '\0')}) {
    const absl::Status status = FromGrpc(grpc::Status(grpc::StatusCode::ABORTED, "x", details));
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  }
  EXPECT_EQ(FromGrpc(grpc::Status(grpc::StatusCode::ABORTED, std::string(100'000, 'x'))).message().size(), 4096u);
}

// S26.
TEST(ChannelTest, OnlyLoopbackWithoutCertificates) {
  for (const char* address : {"127.0.0.1:7700", "127.8.9.10:1", "[::1]:7700", "localhost:1", "unix:/tmp/x"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
  for (const char* address : {"10.0.0.1:7700", "127.example.org:1", "example.org:1", "127.0.0.1", "0.0.0.0:1", ""}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
  for (const auto make : {MakeControlChannel, MakeBulkChannel}) {
    const absl::Status refused = make({.address = "10.0.0.1:1"}, ChannelSecurity::PlaintextLoopback()).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(refused.message(), testing::HasSubstr("'10.0.0.1:1' is not a loopback address"));
    EXPECT_THAT(refused.message(), testing::HasSubstr("--identity (a worker gets one with --join-token)"));
  }
}

}  // namespace
}  // namespace atl
