// SPDX-License-Identifier: Apache-2.0
// Limits on the bytes of a peer before gRPC reads them, and their cost for the receiver (S20, S28, S31, S33, S34).
#include "common/guard/inbound_filter.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/unit/common/guard/http2_bytes.h"

namespace atl::guard {
namespace {

class InboundFilterTest : public testing::Test {
 protected:
  // Feeds bytes in pieces of `step`, so that reads do not end at frame boundaries.
  absl::Status Feed(std::string_view bytes, size_t step = 1 << 20) {
    for (size_t at = 0; at < bytes.size(); at += step) {
      pieces_.Clear();
      const absl::Status status = filter_.Consume(AsSpan(bytes.substr(at, step)), now_, pieces_, to_peer_);
      to_server_ += pieces_.Joined();
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  std::string TakeServer() { return std::exchange(to_server_, {}); }
  std::string TakePeer() { return std::exchange(to_peer_, {}); }

  Instant now_ = Instant{} + Seconds(1);
  std::vector<std::string> calls_;
  CallVerdict verdict_;
  Pieces pieces_;
  std::string to_server_, to_peer_;
  InboundFilter filter_{HttpLimits{}, [this](const std::string& path, const absl::Status& refusal) {
                          calls_.push_back(refusal.ok() ? path : "refused");
                          return verdict_;
                        }};
};

TEST_F(InboundFilterTest, ACallPassesWhereverReadsEnd) {
  const std::string data = Frame(FrameType::kData, kEndStream, 1, std::string("\0\0\0\0\x0e", 5) + "and some bytes");
  for (const size_t step : {size_t{1}, size_t{2}, size_t{7}, size_t{1} << 20}) {
    InboundFilter filter(HttpLimits{}, [](const std::string&, const absl::Status&) { return CallVerdict{}; });
    std::string server, peer;
    const std::string bytes = Hello() + Call(1) + data;
    for (size_t at = 0; at < bytes.size(); at += step) {
      Pieces pieces;
      ASSERT_TRUE(filter.Consume(AsSpan(std::string_view(bytes).substr(at, step)), now_, pieces, peer).ok());
      server += pieces.Joined();
    }
    EXPECT_EQ(server, Hello() + Call(1) + data) << step;
    EXPECT_EQ(peer, "");
    EXPECT_TRUE(filter.admitted());
    EXPECT_EQ(filter.open_streams(), 1u);
  }
}

TEST_F(InboundFilterTest, GrpcHearsNothingBeforeTheFirstCall) {
  ASSERT_TRUE(Feed(Hello() + Frame(FrameType::kSettings, kAck, 0) + Frame(FrameType::kPing, 0, 0, "12345678")).ok());
  EXPECT_FALSE(filter_.admitted());
  EXPECT_EQ(TakePeer(), Frame(FrameType::kPing, kAck, 0, "12345678")) << "the guard answers";
  EXPECT_EQ(TakeServer(), Hello()) << "kept by the relay; its own settings' acknowledgement is not gRPC's";
  ASSERT_TRUE(Feed(Call(1) + Frame(FrameType::kSettings, kAck, 0) + Frame(FrameType::kPing, 0, 0, "12345678")).ok());
  EXPECT_EQ(TakeServer(), Call(1) + Frame(FrameType::kSettings, kAck, 0) + Frame(FrameType::kPing, 0, 0, "12345678"));
}

TEST_F(InboundFilterTest, ARefusedCallIsAnsweredAndGrpcHearsNothing) {
  verdict_.status = absl::PermissionDeniedError("not 100% yours");
  ASSERT_TRUE(Feed(Hello()).ok());
  TakeServer();
  ASSERT_TRUE(Feed(Call(1) + Frame(FrameType::kData, kEndStream, 1, "request")).ok());
  EXPECT_EQ(TakeServer(), "");
  const std::string answer = TakePeer();
  EXPECT_NE(answer.find("grpc-status\x01"
                        "7"),
            std::string::npos);
  EXPECT_NE(answer.find("not 100%25 yours"), std::string::npos);
  EXPECT_NE(answer.find(Frame(FrameType::kWindowUpdate, 0, 0, std::string("\0\0\0\7", 4))), std::string::npos)
      << "the window of the connection does not leak";
  EXPECT_EQ(filter_.open_streams(), 0u);
  verdict_ = {};
  ASSERT_TRUE(Feed(Call(3)).ok());
  EXPECT_TRUE(filter_.admitted());
}

TEST_F(InboundFilterTest, CallsWithBadHeadersAreAnsweredWithAnError) {
  Fields fields = CallFields();
  fields.emplace_back("grpclb_client_stats", "x");
  ASSERT_TRUE(Feed(Hello() + Call(1, fields) + Call(3)).ok());
  EXPECT_EQ(calls_, (std::vector<std::string>{"refused", "/atoll.v1.JobService/GetJob"})) << "both count";
  EXPECT_EQ(to_server_, Hello() + Call(3));
  EXPECT_NE(to_peer_.find("grpc-status\x01"
                          "3"),
            std::string::npos);
}

TEST_F(InboundFilterTest, ABlockInPiecesIsOneFrameForGrpc) {
  const std::string block = Block(CallFields());
  ASSERT_TRUE(Feed(Hello() + Frame(FrameType::kHeaders, kEndStream, 1, block.substr(0, 10)) +
                   Frame(FrameType::kContinuation, 0, 1, block.substr(10, 5)) +
                   Frame(FrameType::kContinuation, kEndHeaders, 1, block.substr(15)))
                  .ok());
  EXPECT_EQ(to_server_, Hello() + Call(1, CallFields(), kEndHeaders | kEndStream));
}

TEST_F(InboundFilterTest, PaddingAndPriorityOfHeadersAreTakenOff) {
  const std::string payload = std::string("\3", 1) + std::string("\0\0\0\0\1", 5) + Block(CallFields()) + "pad";
  ASSERT_TRUE(Feed(Hello() + Frame(FrameType::kHeaders, kEndHeaders | kPadded | kHasPriority, 1, payload)).ok());
  EXPECT_EQ(to_server_, Hello() + Call(1));
}

// CVE-2023-33953 and similar.
TEST_F(InboundFilterTest, ABlockWithoutEndEndsTheConnection) {
  const std::string piece = Frame(FrameType::kContinuation, 0, 1, std::string(1000, 'x'));
  ASSERT_TRUE(Feed(Hello() + Frame(FrameType::kHeaders, 0, 1, "x")).ok());
  absl::Status status;
  int sent = 0;
  while (status.ok() && sent < 1000) {
    status = Feed(piece);
    ++sent;
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LE(sent, 9);
  EXPECT_EQ(to_server_, Hello());
}

TEST_F(InboundFilterTest, OnlyItsContinuationMayFollowABlock) {
  for (const std::string& next : {Frame(FrameType::kData, 0, 1, "x"), Frame(FrameType::kPing, 0, 0, "12345678"),
                                  Frame(FrameType::kContinuation, kEndHeaders, 3, "x"), Call(3)}) {
    InboundFilter filter(HttpLimits{}, [](const std::string&, const absl::Status&) { return CallVerdict{}; });
    Pieces pieces;
    std::string peer;
    EXPECT_FALSE(
        filter.Consume(AsSpan(Hello() + Frame(FrameType::kHeaders, 0, 1, "x") + next), now_, pieces, peer).ok());
  }
}

TEST_F(InboundFilterTest, WhatNoGrpcClientSendsEndsTheConnection) {
  const std::string begun = Hello() + Call(1);
  for (const std::string& next : {Call(1),
                                  Call(2),
                                  Frame(FrameType::kHeaders, kEndHeaders | kEndStream, 1, "trailers"),
                                  Frame(FrameType::kPushPromise, 0, 1, "abcd"),
                                  Frame(FrameType::kData, 0, 3, "x"),
                                  Frame(FrameType::kData, 0, 0, "x"),
                                  Frame(FrameType::kData, kPadded, 1, "xx"),
                                  Frame(FrameType::kSettings, 0, 1),
                                  Frame(FrameType::kSettings, 0, 0, "x"),
                                  Frame(FrameType::kSettings, kAck, 0, "123456"),
                                  Frame(FrameType::kPing, 0, 0, "short"),
                                  Frame(FrameType::kWindowUpdate, 0, 0, "x"),
                                  Frame(FrameType::kWindowUpdate, 0, 5, "abcd"),
                                  Frame(FrameType::kWindowUpdate, 0, 1, std::string(4, '\0')),
                                  Frame(FrameType::kWindowUpdate, 0, 0, std::string(4, '\0')),
                                  Frame(FrameType::kData, kEndStream, 1, "x") + Frame(FrameType::kData, 0, 1, "x"),
                                  Frame(FrameType::kResetStream, 0, 7, "abcd"),
                                  Frame(FrameType::kResetStream, 0, 0, "abcd"),
                                  Frame(FrameType::kGoAway, 0, 0, "short"),
                                  Frame(FrameType::kContinuation, 0, 1, "x"),
                                  Frame(FrameType::kSettings, 0, 0, std::string(6 * 33, 'x')),
                                  Frame(FrameType::kPriority, 0, 1, "x"),
                                  Frame(static_cast<FrameType>(99), 0, 0, std::string(20'000, 'x')),
                                  Frame(FrameType::kHeaders, kEndHeaders | kPadded, 3, "\xff"),
                                  Frame(FrameType::kHeaders, kEndHeaders, 3, "\x80")}) {
    InboundFilter filter(HttpLimits{}, [](const std::string&, const absl::Status&) { return CallVerdict{}; });
    Pieces pieces;
    std::string peer;
    ASSERT_TRUE(filter.Consume(AsSpan(begun), now_, pieces, peer).ok());
    EXPECT_FALSE(filter.Consume(AsSpan(next), now_, pieces, peer).ok()) << int(next[3]) << " of " << next.size();
  }
  EXPECT_FALSE(Feed("GET / HTTP/1.1\r\n").ok());
}

TEST_F(InboundFilterTest, TheFirstFrameIsSettings) {
  EXPECT_FALSE(Feed(std::string(kPreface) + Frame(FrameType::kPing, 0, 0, "12345678")).ok());
}

struct Flood {
  std::string name, frame;
  uint32_t a_second;
};
class FrameFloods : public testing::TestWithParam<Flood> {};

TEST_P(FrameFloods, EndTheConnection) {
  const Flood& flood = GetParam();
  InboundFilter filter(HttpLimits{}, [](const std::string&, const absl::Status&) { return CallVerdict{}; });
  Pieces pieces;
  std::string peer;
  Instant now = Instant{} + Seconds(10);
  ASSERT_TRUE(filter.Consume(AsSpan(Hello() + Call(1)), now, pieces, peer).ok());
  now = now + Seconds(1);
  for (int second = 0; second < 2; ++second) {  // at the limit it may continue forever
    for (uint32_t i = 0; i < flood.a_second; ++i)
      ASSERT_TRUE(filter.Consume(AsSpan(flood.frame), now, pieces, peer).ok()) << i;
    now = now + Seconds(1);
    pieces.Clear();
  }
  absl::Status status;
  for (uint32_t i = 0; status.ok() && i <= flood.a_second; ++i)
    status = filter.Consume(AsSpan(flood.frame), now, pieces, peer);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LE(peer.size(), 64u * 1024) << "nothing is queued for a peer that does not read";
}

INSTANTIATE_TEST_SUITE_P(
    All, FrameFloods,
    testing::Values(Flood{"Pings", Frame(FrameType::kPing, 0, 0, "12345678"), 50},
                    Flood{"Settings", Frame(FrameType::kSettings, 0, 0), 20},
                    Flood{"Resets", Frame(FrameType::kResetStream, 0, 1, std::string(4, '\0')), 500},
                    Flood{"EmptyData", Frame(FrameType::kData, 0, 1), 1000},
                    Flood{"EmptyMessages", Frame(FrameType::kData, 0, 1, std::string(5, '\0')), 1000},
                    Flood{"Priorities", Frame(FrameType::kPriority, 0, 1, "12345"), 1000},
                    Flood{"UnknownFrames", Frame(static_cast<FrameType>(200), 0, 0, "x"), 1000},
                    Flood{"Goodbyes", Frame(FrameType::kGoAway, 0, 0, std::string(8, '\0')), 1000}),
    [](const auto& flood) { return flood.param.name; });

// gRPC would collect the message, and check its length at its end.
TEST_F(InboundFilterTest, TheCallOfAMessageThatIsTooLongIsRefused) {
  ASSERT_TRUE(Feed(Hello() + Call(1) + Call(3)).ok());
  const std::string begun = Frame(FrameType::kData, 0, 1, std::string("\0\0\x11\0\1", 5) + "xyz");
  ASSERT_TRUE(Feed(begun.substr(0, 12)).ok());
  to_server_.clear();
  ASSERT_TRUE(Feed(begun.substr(12)).ok());
  EXPECT_NE(TakePeer().find("a message of 1114113 bytes; this method takes 1114112 at most"), std::string::npos);
  EXPECT_TRUE(to_server_.ends_with(Frame(FrameType::kResetStream, 0, 1, std::string("\0\0\0\x08", 4))));
  EXPECT_EQ(filter_.open_streams(), 1u);
  EXPECT_EQ(filter_.unfinished_bytes(), 0u);
  EXPECT_EQ(filter_.TakeResets(), 1u);
  ASSERT_TRUE(Feed(Frame(FrameType::kData, kEndStream, 3, std::string("\0\0\x11\0\0", 5))).ok());
  EXPECT_EQ(filter_.open_streams(), 2u - 1u);
}

// S37: gRPC would keep what it does not read.
TEST_F(InboundFilterTest, ACallOfAMethodWithoutAStreamHasOneMessage) {
  const std::string message = std::string("\0\0\0\0\6", 5) + "123456";
  const auto sends = [&](const std::string& data, bool one_message, uint32_t message_bytes) {
    std::string path;
    InboundFilter filter({.method =
                              [&](const std::string& called) {
                                path = called;
                                return MethodLimits{.message_bytes = message_bytes, .one_message = one_message};
                              }},
                         [](const std::string&, const absl::Status&) { return CallVerdict{}; });
    Pieces pieces;
    std::string peer;
    EXPECT_TRUE(
        filter.Consume(AsSpan(Hello() + Call(1) + Frame(FrameType::kData, 0, 1, data)), now_, pieces, peer).ok());
    EXPECT_EQ(path, "/atoll.v1.JobService/GetJob");
    EXPECT_EQ(filter.open_streams(), peer.empty() ? 1u : 0u);
    EXPECT_EQ(filter.TakeResets(), peer.empty() ? 0u : 1u);
    return peer;
  };
  EXPECT_EQ(sends(message, true, 6), "");
  EXPECT_EQ(sends(message + message, false, 6), "");
  EXPECT_NE(sends(message, true, 5).find("a message of 6 bytes; this method takes 5 at most"), std::string::npos);
  EXPECT_NE(sends(message + message.substr(0, 1), true, 6).find("a second message in a call"), std::string::npos);
}

TEST_F(InboundFilterTest, BytesOfIncompleteMessagesAreCounted) {
  ASSERT_TRUE(Feed(Hello() + Call(1) + Call(3)).ok());
  const std::string message = std::string("\0\0\0\0\6", 5) + "123456";
  ASSERT_TRUE(Feed(Frame(FrameType::kData, 0, 1, message + message.substr(0, 7))).ok());
  EXPECT_EQ(filter_.unfinished_bytes(), 2u);
  ASSERT_TRUE(Feed(Frame(FrameType::kData, 0, 3, message.substr(0, 10))).ok());
  EXPECT_EQ(filter_.unfinished_bytes(), 7u);
  ASSERT_TRUE(Feed(Frame(FrameType::kData, 0, 1, message.substr(7))).ok());
  EXPECT_EQ(filter_.unfinished_bytes(), 5u);
  filter_.StreamEnded(3);
  EXPECT_EQ(filter_.unfinished_bytes(), 0u);
}

// Each small frame of an incomplete message costs gRPC more memory than it has content.
TEST_F(InboundFilterTest, SmallFramesOfAMessageAreLimited) {
  ASSERT_TRUE(Feed(Hello() + Call(1) + Frame(FrameType::kData, 0, 1, std::string("\0\0\x10\0\0", 5))).ok());
  const std::string small = Frame(FrameType::kData, 0, 1, std::string(kPieceBytes - 1, 'x')),
                    large = Frame(FrameType::kData, 0, 1, std::string(kPieceBytes, 'x'));
  for (uint32_t i = 1; i < HttpLimits{}.pieces_of_a_message; ++i) ASSERT_TRUE(Feed(small + large).ok()) << i;
  EXPECT_EQ(Feed(small).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(InboundFilterTest, WindowUpdatesAreCounted) {
  ASSERT_TRUE(Feed(Hello() + Call(1)).ok());
  for (int i = 0; i < 130; ++i)
    ASSERT_TRUE(Feed(Frame(FrameType::kWindowUpdate, 0, 0, std::string("\0\0\0\1", 4))).ok());
  EXPECT_EQ(filter_.TakeCost(), 2u);
  EXPECT_EQ(filter_.TakeCost(), 0u);
}

TEST_F(InboundFilterTest, SmallMessagesAndFramesAreCounted) {
  ASSERT_TRUE(Feed(Hello() + Call(1)).ok());
  const std::string message("\0\0\0\0\1x", 6);
  ASSERT_TRUE(
      Feed(Frame(FrameType::kData, 0, 1, std::string(2000, 'x').replace(0, 5, std::string("\0\0\0\x07\xcb", 5)))).ok());
  EXPECT_EQ(filter_.TakeCost(), 0u) << "a large message in a large frame";
  std::string many;
  while (many.size() < kPieceBytes) many += message;
  ASSERT_TRUE(Feed(Frame(FrameType::kData, 0, 1, many)).ok());
  EXPECT_EQ(filter_.TakeCost(), many.size() / message.size() / 8);
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(Feed(Frame(FrameType::kData, 0, 1, message)).ok());
  EXPECT_EQ(filter_.TakeCost(), 4u) << "a frame and a message each";
  filter_.StreamEnded(1);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(Feed(Frame(FrameType::kData, 0, 1, std::string(16'384, 'x'))).ok());
  EXPECT_EQ(filter_.TakeCost(), 1u) << "data for a call that has ended";
}

TEST_F(InboundFilterTest, OpenCallsAreLimitedAndEndedOnesMakeRoom) {
  ASSERT_TRUE(Feed(Hello()).ok());
  for (uint32_t stream = 1; stream <= 2 * 64 - 1; stream += 2) ASSERT_TRUE(Feed(Call(stream)).ok());
  EXPECT_EQ(filter_.open_streams(), 64u);
  EXPECT_EQ(to_peer_, "");
  ASSERT_TRUE(Feed(Call(129)).ok());
  EXPECT_NE(TakePeer().find("more than 64 calls"), std::string::npos);
  filter_.StreamEnded(1);
  ASSERT_TRUE(Feed(Frame(FrameType::kResetStream, 0, 3, std::string(4, '\0')) + Call(131) + Call(133)).ok());
  EXPECT_EQ(to_peer_, "");
  EXPECT_EQ(filter_.open_streams(), 64u);
}

TEST_F(InboundFilterTest, ResetsOfOpenCallsAreCounted) {
  ASSERT_TRUE(Feed(Hello() + Call(1) + Call(3)).ok());
  filter_.StreamEnded(1);
  for (const uint32_t stream : {1U, 3U, 3U})
    ASSERT_TRUE(Feed(Frame(FrameType::kResetStream, 0, stream, std::string(4, '\0'))).ok());
  EXPECT_EQ(filter_.TakeResets(), 1u);
  EXPECT_EQ(filter_.TakeResets(), 0u);
}

TEST_F(InboundFilterTest, CallsThatComeTooFastEndTheConnection) {
  ASSERT_TRUE(Feed(Hello() + Call(1)).ok());
  verdict_.end_connection = true;
  EXPECT_EQ(Feed(Call(3)).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(InboundFilterTest, SettingsThatOnlyGrpcKnowsAreLeftOut) {
  const auto setting = [](uint16_t name, uint32_t value) {
    std::string out = {static_cast<char>(name >> 8), static_cast<char>(name & 0xff)};
    AppendBigEndian32(value, out);
    return out;
  };
  ASSERT_TRUE(Feed(std::string(kPreface) +
                   Frame(FrameType::kSettings, 0, 0, setting(4, 70'000) + setting(0xfe03, 1) + setting(1, 1 << 30)))
                  .ok());
  EXPECT_EQ(to_server_,
            std::string(kPreface) + Frame(FrameType::kSettings, 0, 0, setting(4, 70'000) + setting(1, 4096)));
}

TEST_F(InboundFilterTest, WhyAConnectionEndsIsWrittenForThePeer) {
  const std::string frame = GoAway(5, absl::ResourceExhaustedError("too many pings"));
  const FrameHeader header = ParseFrameHeader(reinterpret_cast<const uint8_t*>(frame.data()));
  EXPECT_EQ(header.type, FrameType::kGoAway);
  EXPECT_EQ(frame.size(), kFrameHeaderBytes + header.length);
  EXPECT_EQ(frame.substr(kFrameHeaderBytes, 8), std::string("\0\0\0\5\0\0\0\x0b", 8));
  EXPECT_EQ(frame.substr(kFrameHeaderBytes + 8), "too many pings");
}

}  // namespace
}  // namespace atl::guard
