// SPDX-License-Identifier: Apache-2.0
// S30: how many control streams an identity may hold at a time, and begin.
#include "coordinator/service/control_sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/manual_clock.h"
#include "tests/support/manual_executor.h"
#include "tests/support/memory_stream.h"
#include "tests/unit/coordinator/engine/small_coordinator.h"

namespace atl {
namespace {

using testing::HasSubstr;

std::string PeerOfWorker(const std::string& name) {
  return "atoll://worker/" + name + "/0123456789abcdef@ipv4:10.0.0.7:5";
}

class ControlSessionsTest : public testing::Test {
 protected:
  // The worker's end of a new stream, and its status once it has ended.
  struct Stream {
    std::unique_ptr<WorkerEnd> end;
    std::optional<absl::Status> closed;
  };
  Stream& Open(const std::string& peer) {
    ControlStreamPair pair = MakeControlStreamPair(wires_);
    streams_.push_back(std::make_unique<Stream>());
    Stream& stream = *streams_.back();
    stream.end = std::move(pair.worker);
    stream.end->Start({[](const CoordinatorMessage&) {}, [&stream](const absl::Status& why) { stream.closed = why; }});
    sessions_.Accept(std::move(pair.coordinator), peer);
    Settle();
    return stream;
  }
  void Settle() {
    for (int i = 0; i < 5; ++i) {
      wires_.RunAll();
      coordinator_.Settle();
    }
  }

  ManualClock clock_;
  SmallDisk disk_;
  ManualExecutor wires_;
  SmallCoordinator coordinator_{disk_, clock_};
  std::vector<std::unique_ptr<Stream>> streams_;
  ControlSessions sessions_{coordinator_.engine, clock_, coordinator_.log};
};

// Otherwise a member that opens one stream after another would keep every other worker out.
TEST_F(ControlSessionsTest, StreamsPerIdentityAreLimited) {
  for (int i = 0; i < 16; ++i) EXPECT_FALSE(Open(PeerOfWorker("a")).closed.has_value()) << i;
  const Stream& further = Open(PeerOfWorker("a"));
  ASSERT_TRUE(further.closed.has_value());
  EXPECT_EQ(further.closed->code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(further.closed->message()), HasSubstr("identity 'a' holds 16 control streams"));
  EXPECT_FALSE(Open(PeerOfWorker("b")).closed.has_value());
  streams_[3]->end->Close(absl::OkStatus());
  Settle();
  EXPECT_FALSE(Open(PeerOfWorker("a")).closed.has_value()) << "a place that is given up is free";
  EXPECT_TRUE(Open(PeerOfWorker("a")).closed.has_value());
}

// Each stream that begins leaves lines in the log and, if its worker joins, a record on disk.
TEST_F(ControlSessionsTest, StreamsOfAnIdentityMayNotBeginTooOften) {
  const auto begin = [&](const std::string& name) {
    Stream& stream = Open(PeerOfWorker(name));
    const std::optional<absl::Status> refused = stream.closed;
    stream.end->Close(absl::OkStatus());
    Settle();
    return refused.value_or(absl::OkStatus());
  };
  for (int64_t i = 0; i < kStreamsOfOne.at_once; ++i) EXPECT_EQ(begin("a"), absl::OkStatus()) << i;
  const absl::Status further = begin("a");
  EXPECT_EQ(further.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(further.message()), HasSubstr("identity 'a' begins control streams too often"));
  EXPECT_EQ(begin("b"), absl::OkStatus());
  clock_.Advance(kStreamsOfOne.every);
  EXPECT_EQ(begin("a"), absl::OkStatus());
  EXPECT_NE(begin("a"), absl::OkStatus());
}

// On a single machine without certificates, all streams belong to one owner.
TEST_F(ControlSessionsTest, StreamsWithoutIdentityAreNotCounted) {
  for (int i = 0; i < 40; ++i) EXPECT_FALSE(Open("ipv4:127.0.0.1:5").closed.has_value()) << i;
}

}  // namespace
}  // namespace atl
