// SPDX-License-Identifier: Apache-2.0
#include "common/telemetry/queued_event_log.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/manual_executor.h"

namespace atl {
namespace {

// Accepts lines until the test makes it refuse them.
class KeptLog final : public EventLog {
 public:
  struct State {
    std::vector<uint64_t> revisions;
    absl::Status answer;
    int syncs = 0;
  };
  explicit KeptLog(State& state) : state_(state) {}
  absl::Status Append(const LoggedEvent& event) override {
    if (state_.answer.ok()) state_.revisions.push_back(event.revision);
    return state_.answer;
  }
  absl::StatusOr<uint64_t> Read(const JobId&, const std::function<void(LoggedEvent)>& visit) const override {
    for (const uint64_t revision : state_.revisions) visit({.job = {"tiny"}, .revision = revision});
    return 0;
  }
  absl::StatusOr<bool> ReadEnd(const JobId& job, uint64_t,
                               const std::function<void(LoggedEvent)>& visit) const override {
    ATOLL_RETURN_IF_ERROR(Read(job, visit).status());
    return true;
  }
  absl::Status Sync() override {
    ++state_.syncs;
    return absl::OkStatus();
  }

 private:
  State& state_;
};

class QueuedEventLogTest : public testing::Test {
 protected:
  absl::Status Append(uint64_t revision) { return log_.Append({.job = {"tiny"}, .revision = revision}); }
  std::vector<std::string> Told() const {
    std::vector<std::string> told;
    for (const LogLine& line : lines_.Recent(100)) told.push_back(line.event);
    return told;
  }

  KeptLog::State kept_;
  ManualExecutor executor_;
  Log lines_{{.to_stderr = false}};
  QueuedEventLog log_{std::make_unique<KeptLog>(kept_), executor_, lines_};
};

TEST_F(QueuedEventLogTest, ReadsAfterEarlierAppends) {
  std::vector<uint64_t> read;
  bool done = false;
  EXPECT_EQ(Append(1), absl::OkStatus());
  log_.ReadLater(
      JobId{"tiny"}, [&](const LoggedEvent& event) { read.push_back(event.revision); },
      [&](const absl::StatusOr<uint64_t>& skipped) { done = skipped.ok(); });
  EXPECT_EQ(Append(2), absl::OkStatus());
  EXPECT_FALSE(done) << "nobody who asks waits for the disk";
  executor_.RunAll();
  EXPECT_TRUE(done);
  ASSERT_FALSE(read.empty());
  EXPECT_EQ(read.front(), 1u);
}

TEST_F(QueuedEventLogTest, WritesInOrderWhenTheExecutorComesToIt) {
  for (uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(Append(i), absl::OkStatus());
  EXPECT_TRUE(kept_.revisions.empty()) << "nobody who tells an event waits for the disk";
  EXPECT_EQ(executor_.pending(), 1u);
  executor_.RunAll();
  EXPECT_EQ(Append(4), absl::OkStatus());
  executor_.RunAll();
  EXPECT_EQ(kept_.revisions, (std::vector<uint64_t>{1, 2, 3, 4}));
  std::vector<uint64_t> read;
  ASSERT_TRUE(log_.Read({"tiny"}, [&read](const LoggedEvent& event) { read.push_back(event.revision); }).ok());
  EXPECT_EQ(read, kept_.revisions);
  EXPECT_EQ(log_.Sync(), absl::OkStatus());
  EXPECT_EQ(kept_.syncs, 1);
}

TEST_F(QueuedEventLogTest, LinesBeyondTheBoundAreDroppedAndReported) {
  for (uint64_t i = 1; i <= QueuedEventLog::kWaiting; ++i) ASSERT_EQ(Append(i), absl::OkStatus());
  const absl::Status lost = Append(9999);
  EXPECT_EQ(lost.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(lost.message(), "4096 lines of the event log already wait for the disk");
  executor_.RunAll();
  EXPECT_EQ(Append(10'000), absl::OkStatus());
  executor_.RunAll();
  EXPECT_EQ(kept_.revisions.size(), QueuedEventLog::kWaiting + 1);
  EXPECT_EQ(kept_.revisions.back(), 10'000u);
}

TEST_F(QueuedEventLogTest, ConsecutiveRefusedLinesAreReportedOnce) {
  kept_.answer = absl::ResourceExhaustedError("no space left on device");
  for (uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(Append(i), absl::OkStatus());
  executor_.RunAll();
  EXPECT_EQ(Told(), std::vector<std::string>{"event log lines lost"});
  kept_.answer = absl::OkStatus();
  EXPECT_EQ(Append(4), absl::OkStatus());
  EXPECT_EQ(Append(5), absl::OkStatus());
  executor_.RunAll();
  EXPECT_EQ(Told(), (std::vector<std::string>{"event log lines lost", "event log recovered"}));
  EXPECT_EQ(kept_.revisions, (std::vector<uint64_t>{4, 5}));
}

}  // namespace
}  // namespace atl
