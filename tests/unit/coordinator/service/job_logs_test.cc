// SPDX-License-Identifier: Apache-2.0
// Following a worker's log: how often and for which lines the worker is asked, without lost or
// repeated lines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <variant>

#include "coordinator/service/job_api.h"
#include "coordinator/service/new_lines.h"
#include "tests/support/manual_clock.h"
#include "tests/support/manual_executor.h"
#include "tests/unit/coordinator/engine/small_coordinator.h"

namespace atl {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kNoon = 1'769'860'800'000'000'000;  // 2026-01-31T12:00:00Z

std::string Line(const std::string& milliseconds, const std::string& text) {
  return "2026-01-31T12:00:00." + milliseconds + "Z INFO " + text;
}

TEST(NewLinesOf, ALineBeginsWithItsTime) {
  EXPECT_EQ(WallNanosOf(Line("123", "a")), kNoon + 123'000'000);
  for (const char* line : {"", "hello", "2026-01-31T12:00:00", "2026-01-31T12:00:00.1", "9999-01-31T12:00:00.123Z a"})
    EXPECT_EQ(WallNanosOf(line), 0) << line;
}

TEST(NewLinesOf, LinesOfTheSameTimeAppearOnce) {
  NewLines lines;
  EXPECT_EQ(lines.since_wall_nanos(), 0);
  const std::string a = Line("001", "a"), same = Line("002", "same"), later = Line("003", "later");
  EXPECT_THAT(lines.Of({a, same}), ElementsAre(a, same));
  EXPECT_EQ(lines.since_wall_nanos(), kNoon + 2'000'000);
  EXPECT_THAT(lines.Of({same}), IsEmpty());
  EXPECT_THAT(lines.Of({same, same}), ElementsAre(same)) << "written twice, told twice";
  EXPECT_THAT(lines.Of({same, same, same, later}), ElementsAre(same, later));
  EXPECT_THAT(lines.Of({}), IsEmpty()) << "a worker that was silent";
  EXPECT_THAT(lines.Of({later, a}), ElementsAre(a)) << "its clock was set back";
}

TEST(NewLinesOf, OverwrittenLinesMakeTheRestNew) {
  NewLines lines;
  const std::string a = Line("001", "a"), b = Line("001", "b"), c = Line("001", "c");
  EXPECT_THAT(lines.Of({a, b}), ElementsAre(a, b));
  EXPECT_THAT(lines.Of({b, c}), ElementsAre(c));
  EXPECT_THAT(lines.Of({a}), ElementsAre(a));
}

// The messages of the engine to the worker.
class Asked final : public ControlSink {
 public:
  void Send(const CoordinatorMessage& message) override {
    if (const auto* wanted = std::get_if<LogsWanted>(&message)) questions.push_back(*wanted);
  }
  void Close() override {}
  std::vector<LogsWanted> questions;
};

class FollowingLogs : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(c_.Submit(TinySpec("tiny")).ok());
    Hello hello;
    hello.protocol_revision = kProtocolRevision;
    hello.arithmetic_revision = kArithmeticRevision;
    hello.worker = WorkerId{"w"};
    hello.start_nonce = 1;
    worker_ = c_.engine.OpenControl(hello, sink_);
    c_.Settle();
    v1::StreamJobLogsRequest request;
    request.set_name("jobs/tiny");
    request.set_worker("workers/w");
    ASSERT_TRUE(api_.FollowJobLogs(request, {.lines =
                                                 [this](const v1::StreamJobLogsResponse& fresh) {
                                                   told_.insert(told_.end(), fresh.lines().begin(),
                                                                fresh.lines().end());
                                                 },
                                             .end = [this](const absl::Status& status) { ended_ = status; }})
                    .ok());
    c_.Settle();
  }
  void AnswerWith(const std::vector<std::string>& lines) {
    c_.engine.ControlSaid(worker_, LogLines{sink_->questions.back().request, lines});
    c_.Settle();
  }
  // Lets time pass; watchers are served every half second.
  void Pass(Duration time) {
    for (const Instant end = clock_.Now() + time; clock_.Now() < end; c_.Settle()) clock_.Advance(Milliseconds(100));
  }

  SmallDisk disk_;
  ManualClock clock_;
  SmallCoordinator c_{disk_, clock_};
  ManualExecutor calls_;
  JobApi api_{JobApiOptions{}, c_.engine, clock_, c_.log, calls_, {}};
  std::shared_ptr<Asked> sink_ = std::make_shared<Asked>();
  ConnectionId worker_{};
  std::vector<std::string> told_;
  std::optional<absl::Status> ended_;
};

TEST_F(FollowingLogs, WorkerIsAskedOnceASecondForNewLines) {
  ASSERT_EQ(sink_->questions.size(), 1u);
  EXPECT_EQ(sink_->questions[0].since_wall_nanos, 0);
  EXPECT_EQ(sink_->questions[0].lines, 100u);
  AnswerWith({Line("001", "a"), Line("002", "b")});
  Pass(Milliseconds(900));
  EXPECT_EQ(sink_->questions.size(), 1u);
  Pass(Seconds(9));
  EXPECT_EQ(sink_->questions.size(), 2u) << "the second one has no answer yet";
  EXPECT_EQ(sink_->questions[1].since_wall_nanos, kNoon + 2'000'000);
  AnswerWith({Line("002", "b"), Line("002", "c")});
  EXPECT_THAT(told_, ElementsAre(Line("001", "a"), Line("002", "b"), Line("002", "c")));
}

TEST_F(FollowingLogs, AfterTheJobsEndTheLastLinesAreFetched) {
  AnswerWith({Line("001", "a")});
  Pass(Milliseconds(1100));
  ASSERT_EQ(sink_->questions.size(), 2u);
  ASSERT_TRUE(c_.Ask(JobControlled{.job = JobId{"tiny"}, .action = JobAction::kCancel}).ok());
  EXPECT_EQ(sink_->questions.size(), 2u);
  AnswerWith({Line("001", "a")});
  Pass(Seconds(1));
  ASSERT_EQ(sink_->questions.size(), 3u) << "lines may have come since";
  EXPECT_FALSE(ended_.has_value());
  AnswerWith({Line("001", "a"), Line("005", "the job has ended")});
  EXPECT_EQ(ended_, absl::OkStatus());
  EXPECT_THAT(told_, ElementsAre(Line("001", "a"), Line("005", "the job has ended")));
}

}  // namespace
}  // namespace atl
