// SPDX-License-Identifier: Apache-2.0
// S30, S34: connections with a peer that does not read, in virtual time, and the number of open calls.
#include "common/guard/relay.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <vector>

#include "tests/unit/common/guard/http2_bytes.h"

namespace atl::guard {
namespace {

class RelayTest : public testing::Test {
 protected:
  RelayTest() {
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()), 0);
    client_ = Descriptor(pair[1]);
    parts_.judge = [](uint64_t, const Peer&, const std::string&, const absl::Status&) { return CallVerdict{}; };
    parts_.calls = &calls_;
    parts_.held = &held_;
    parts_.hand_over = [this](Descriptor server) { server_ = std::move(server); };
    relay_ =
        std::make_unique<Relay>(Accepted{.id = 1, .socket = Descriptor(pair[0]), .endpoint = "unix:"}, parts_, now_);
    const std::string call = Hello() + Call(1);
    EXPECT_EQ(::send(client_.get(), call.data(), call.size(), 0), static_cast<ssize_t>(call.size()));
    Pump();
  }
  // Moves bytes until nothing more can be moved.
  Connection::Next Pump() {
    Connection::Next next = Connection::Next::kAgain;
    while (next == Connection::Next::kAgain) next = relay_->Pump(now_, scratch_);
    return next;
  }
  // gRPC writes answers until no byte fits any more.
  void FillOutput() {
    const std::string answer = Frame(FrameType::kData, 0, 1, std::string(16'000, 'x'));
    for (ssize_t sent = 1; sent > 0;) {
      for (size_t at = 0; at < answer.size(); at += static_cast<size_t>(sent)) {
        sent = ::send(server_.get(), answer.data() + at, answer.size() - at, MSG_NOSIGNAL);
        if (sent <= 0) {
          ASSERT_EQ(Pump(), Connection::Next::kWait);
          sent = ::send(server_.get(), answer.data() + at, answer.size() - at, MSG_NOSIGNAL);
        }
        if (sent <= 0) break;
      }
    }
  }
  size_t Read(size_t most) {
    std::vector<char> bytes(most);
    const ssize_t count = ::recv(client_.get(), bytes.data(), bytes.size(), 0);
    return count > 0 ? static_cast<size_t>(count) : 0;
  }

  Instant now_ = Instant{} + Seconds(3600);
  CallCounter calls_{{}};
  std::atomic<size_t> held_ = 0;
  RelayParts parts_;
  Descriptor client_, server_;
  std::vector<uint8_t> scratch_ = std::vector<uint8_t>(kChunkBytes);
  std::unique_ptr<Relay> relay_;
};

TEST_F(RelayTest, ManyOpenCallsOfOthersLeaveAFewToEach) {
  const auto call_is_refused = [this](uint32_t stream) {
    while (Read(1 << 16) > 0) {
    }
    const std::string call = Call(stream);
    EXPECT_EQ(::send(client_.get(), call.data(), call.size(), 0), static_cast<ssize_t>(call.size()));
    Pump();
    return Read(1 << 16) > 0;
  };
  calls_.open_calls() += kOpenCallsOfAll;
  EXPECT_FALSE(call_is_refused(3));
  EXPECT_FALSE(call_is_refused(5));
  EXPECT_TRUE(call_is_refused(7)) << "it has kOpenCallsAlways";
  calls_.open_calls() -= kOpenCallsOfAll;
  EXPECT_FALSE(call_is_refused(9));
  EXPECT_EQ(calls_.open_calls(), 4);
  relay_.reset();
  EXPECT_EQ(calls_.open_calls(), 0);
}

TEST_F(RelayTest, APeerThatReadsNothingIsCut) {
  FillOutput();
  EXPECT_EQ(relay_->wake(), now_ + kUnreadTime);
  now_ = now_ + kUnreadTime - Milliseconds(1);
  EXPECT_EQ(Pump(), Connection::Next::kWait) << "time alone is no progress";
  now_ = now_ + Milliseconds(1);
  EXPECT_EQ(Pump(), Connection::Next::kEnd);
}

TEST_F(RelayTest, APeerThatReadsSlowlyIsNotCut) {
  FillOutput();
  for (int reads = 0; reads < 8; ++reads) {
    now_ = now_ + kUnreadTime - Seconds(1);
    ASSERT_GT(Read(256 << 10), 0u);
    ASSERT_EQ(Pump(), Connection::Next::kWait);
    FillOutput();
  }
  while (Read(1 << 20) > 0) Pump();
  EXPECT_EQ(relay_->wake(), kNever) << "a connection with nothing to read may be silent";
}

}  // namespace
}  // namespace atl::guard
