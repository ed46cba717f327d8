// What people see of workers: connections, gauges, and what a crash leaves behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <variant>
#include <vector>

#include "common/plan/limits.h"
#include "tests/unit/coordinator/engine/small_coordinator.h"

namespace atl {
namespace {

using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

class KeepingSink final : public ControlSink {
 public:
  void Send(const CoordinatorMessage& message) override { sent.push_back(message); }
  void Close() override { closed = true; }
  template <typename Message>
  bool Got() const {
    for (const CoordinatorMessage& message : sent) {
      if (std::holds_alternative<Message>(message)) return true;
    }
    return false;
  }
  std::vector<CoordinatorMessage> sent;
  bool closed = false;
};

Hello HelloOf(const std::string& name, uint64_t nonce) {
  Hello hello;
  hello.protocol_revision = kProtocolRevision;
  hello.arithmetic_revision = kArithmeticRevision;
  hello.worker = WorkerId{name};
  hello.start_nonce = nonce;
  return hello;
}

class Observing : public testing::Test {
 protected:
  SmallDisk disk_;
  ManualClock clock_;
};

TEST_F(Observing, ARefusedNamesakeDoesNotHideTheWorker) {
  SmallCoordinator c(disk_, clock_);
  const auto first = std::make_shared<KeepingSink>(), second = std::make_shared<KeepingSink>();
  const ConnectionId one = c.engine.OpenControl(HelloOf("w", 1), first);
  c.Settle();
  c.engine.ControlSaid(one, Heartbeat{.sequence = 1});
  const ConnectionId two = c.engine.OpenControl(HelloOf("w", 2), second);
  c.Settle();
  ASSERT_TRUE(second->Got<Refused>());
  ASSERT_TRUE(second->closed);
  c.engine.ControlClosed(two);
  c.Settle();
  EXPECT_FALSE(first->closed);
  c.engine.WantLogs(WorkerId{"w"}, 10, [](const std::vector<std::string>&) {});
  c.Settle();
  EXPECT_TRUE(first->Got<LogsWanted>());
}

// I14 is judged by this: two gaps of 2 and 6 seconds, and none over the time in which the worker was away.
TEST_F(Observing, GapsBetweenHeartbeatsAreCounted) {
  SmallCoordinator c(disk_, clock_);
  const ConnectionId first = c.engine.OpenControl(HelloOf("w", 1), std::make_shared<KeepingSink>());
  c.Settle();
  for (const Duration gap : {Seconds(0), Seconds(2), Seconds(6)}) {
    c.Pass(gap);
    c.engine.ControlSaid(first, Heartbeat{.sequence = 1});
    c.Settle();
  }
  const std::string name = "atoll_heartbeat_gap_seconds";
  EXPECT_THAT(c.metrics.Expose(), HasSubstr(name + "_count{worker=\"w\"} 2\n"));
  EXPECT_THAT(c.metrics.Expose(), HasSubstr(name + "_sum{worker=\"w\"} 8\n"));
  EXPECT_THAT(c.metrics.Expose(), HasSubstr(name + "_bucket{worker=\"w\",le=\"5\"} 1\n"));
  c.engine.ControlClosed(first);
  c.Pass(Seconds(10));
  const ConnectionId second = c.engine.OpenControl(HelloOf("w", 1), std::make_shared<KeepingSink>());
  c.Settle();
  c.engine.ControlSaid(second, Heartbeat{.sequence = 1});
  c.Settle();
  EXPECT_THAT(c.metrics.Expose(), Not(HasSubstr(name + "_count"))) << "its first since it is back";
  c.Pass(Seconds(1));
  c.engine.ControlSaid(second, Heartbeat{.sequence = 2});
  c.Settle();
  EXPECT_THAT(c.metrics.Expose(), HasSubstr(name + "_sum{worker=\"w\"} 1\n"));
}

// A process that was stopped, or whose machine slept, has heard nobody: who is silent from then on is lost in time.
TEST_F(Observing, NobodyIsLostForAStallOfTheCoordinator) {
  SmallCoordinator c(disk_, clock_);
  c.engine.OpenControl(HelloOf("w", 1), std::make_shared<KeepingSink>());
  c.Settle();
  const auto lost = [&c] {
    bool found = true;
    c.engine.Query([&found](const Core& core, const History&, Instant now) {
      found = core.ViewWorkers(now)[0].state == WorkerState::kLost;
    });
    c.Settle();
    return found;
  };
  c.Pass(Seconds(3));
  c.Stall(Seconds(91));
  EXPECT_FALSE(lost());
  c.Pass(Seconds(16));
  EXPECT_FALSE(lost());
  c.Stall(Seconds(4));  // so little is not told apart from a slow machine
  EXPECT_TRUE(lost());
}

// An alert has that hour to tell of it; one that left in order needs none.
TEST_F(Observing, TheAgeOfALostWorkerIsToldForAnHour) {
  SmallCoordinator c(disk_, clock_);
  const ConnectionId leaves = c.engine.OpenControl(HelloOf("leaves", 1), std::make_shared<KeepingSink>());
  const ConnectionId gone = c.engine.OpenControl(HelloOf("gone", 1), std::make_shared<KeepingSink>());
  c.Settle();
  c.engine.ControlSaid(leaves, Leaving{"a pause"});
  c.Settle();
  c.engine.ControlClosed(leaves);
  c.engine.ControlClosed(gone);
  const std::string of_gone = "atoll_heartbeat_age_seconds{worker=\"gone\"}";
  for (const Duration passed : {Seconds(30), Seconds(3000)}) {
    c.Pass(passed);
    c.Pass(Seconds(2));
    EXPECT_THAT(c.metrics.Expose(), HasSubstr(of_gone)) << ToSeconds(passed);
  }
  EXPECT_THAT(c.metrics.Expose(), Not(HasSubstr("atoll_heartbeat_age_seconds{worker=\"leaves\"}")));
  c.Pass(Seconds(600));
  c.Pass(Seconds(2));
  EXPECT_THAT(c.metrics.Expose(), Not(HasSubstr(of_gone)));
}

TEST_F(Observing, AnEndedJobHasNoWorkers) {
  SmallCoordinator c(disk_, clock_);
  ASSERT_TRUE(c.Submit(TinySpec("tiny")).ok());
  c.engine.OpenControl(HelloOf("w", 1), std::make_shared<KeepingSink>());
  c.Pass(Seconds(2));
  EXPECT_THAT(c.metrics.Expose(), HasSubstr("atoll_workers{job=\"tiny\",state=\"alive\"} 1\n"));
  ASSERT_TRUE(c.Ask(JobControlled{.job = JobId{"tiny"}, .action = JobAction::kCancel}).ok());
  c.Pass(Seconds(2));
  for (const std::string state : {"alive", "training", "participating"}) {
    EXPECT_THAT(c.metrics.Expose(), HasSubstr("atoll_workers{job=\"tiny\",state=\"" + state + "\"} 0\n"));
  }
}

// The stream of whoever floods the engine is to be closed; calls and completions still come through.
TEST_F(Observing, AFloodOfMessagesMeetsTheBound) {
  SmallCoordinator c(disk_, clock_);
  const ConnectionId one = c.engine.OpenControl(HelloOf("w", 1), std::make_shared<KeepingSink>());
  c.Settle();
  size_t taken = 0;
  while (taken <= limits::kMailboxEvents && c.engine.ControlSaid(one, Leaving{"a flood"})) ++taken;
  EXPECT_EQ(taken, limits::kMailboxEvents);
  EXPECT_TRUE(c.Submit(TinySpec("tiny")).ok());
  EXPECT_TRUE(c.engine.ControlSaid(one, Leaving{"room again"}));
}

// A job that waited in the queue for long begins its rounds when it gets its worker.
TEST_F(Observing, AQueuedJobIsNotOverdueAtOnce) {
  SmallCoordinator c(disk_, clock_);
  ASSERT_TRUE(c.Submit(TinySpec("tiny")).ok());
  c.Pass(Seconds(3600));
  c.engine.OpenControl(HelloOf("w", 1), std::make_shared<KeepingSink>());
  c.Pass(Seconds(1));
  ASSERT_EQ(c.View("tiny").record.state, JobState::kRunning);
  std::vector<std::string> kinds;
  c.engine.Query([&](const Core&, const History& history, Instant) {
    for (const EventLine& line : history.EventsAfter(JobId{"tiny"}, 0, 100)) kinds.push_back(line.kind);
  });
  c.Settle();
  EXPECT_THAT(kinds, Contains("worker assigned"));
  EXPECT_THAT(kinds, Not(Contains("round overdue")));
}

TEST_F(Observing, AHalfWrittenSnapshotIsGoneAfterAStart) {
  {
    SmallCoordinator c(disk_, clock_);
    ASSERT_TRUE(c.Submit(TinySpec("tiny")).ok());
  }
  const std::string path =
      DataDirectory("/state").SnapshotPath({JobId{"tiny"}, 0, {FragmentIndex{0}, Version{5}}}) + ".tmp";
  {
    const auto file = disk_.files.OpenForAppend(path);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->Append(AsBytes(std::string("half a snapshot"))).ok());
  }
  SmallCoordinator c(disk_, clock_);
  c.Settle();
  EXPECT_THAT(disk_.files.Paths(), Not(Contains(EndsWith(".tmp"))));
  EXPECT_EQ(c.View("tiny").record.state, JobState::kWaitingForWorkers);
}

}  // namespace
}  // namespace atl
