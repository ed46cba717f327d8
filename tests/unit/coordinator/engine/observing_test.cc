// SPDX-License-Identifier: Apache-2.0
// The public view of workers: connections, gauges, and the state after a crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/plan/limits.h"
#include "coordinator/engine/look_share.h"
#include "tests/support/manual_clock.h"
#include "tests/unit/coordinator/engine/small_coordinator.h"

namespace atl {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::EndsWith;
using testing::Gt;
using testing::HasSubstr;
using testing::Lt;
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
  // The state of the only worker.
  static WorkerState StateOfTheWorker(SmallCoordinator& c) {
    WorkerState state = WorkerState::kLost;
    c.engine.Query([&state](const Core& core, const History&, Instant now) { state = core.ViewWorkers(now)[0].state; });
    c.Settle();
    return state;
  }

  SmallDisk disk_;
  ManualClock clock_;
};

TEST_F(Observing, WelcomeHasTheNonceOfTheStart) {
  SmallCoordinator c(disk_, clock_);
  const auto sink = std::make_shared<KeepingSink>();
  c.engine.OpenControl(HelloOf("w", 1), sink);
  c.Settle();
  const auto* welcome = std::get_if<Welcome>(&sink->sent.at(0));
  ASSERT_NE(welcome, nullptr);
  EXPECT_EQ(welcome->boot_nonce, 42u);
}

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
  c.engine.WantLogs(WorkerId{"w"}, 10, 0, [](const auto&) {});
  c.Settle();
  EXPECT_TRUE(first->Got<LogsWanted>());
}

// I14 is judged by this: two gaps of 2 and 6 seconds; the time when the worker was away is not a
// gap.
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

// A process that was stopped, or on a suspended machine, received no heartbeat. Workers that stay
// silent afterwards are lost in time.
TEST_F(Observing, StalledCoordinatorLosesNoWorker) {
  SmallCoordinator c(disk_, clock_);
  c.engine.OpenControl(HelloOf("w", 1), std::make_shared<KeepingSink>());
  c.Settle();
  const auto lost = [&c] { return StateOfTheWorker(c) == WorkerState::kLost; };
  c.Pass(Seconds(3));
  c.Stall(Seconds(91));
  EXPECT_FALSE(lost());
  c.Pass(Seconds(16));
  EXPECT_FALSE(lost());
  c.Stall(Seconds(4));  // too short to distinguish from a slow machine
  EXPECT_TRUE(lost());
}

// The same if the stall falls into a turn, before or after the messages that arrived meanwhile.
TEST_F(Observing, StallInsideATurnLosesNoWorker) {
  SmallCoordinator c(disk_, clock_);
  const ConnectionId connection = c.engine.OpenControl(HelloOf("w", 1), std::make_shared<KeepingSink>());
  c.Settle();
  const auto stall = [this] { clock_.Set(clock_.Now() + Seconds(91)); };
  c.engine.WantLogs(WorkerId{"nobody"}, 1, 0, [&](const auto&) { stall(); });
  c.engine.ControlSaid(connection, Heartbeat{});
  c.Settle();
  EXPECT_NE(StateOfTheWorker(c), WorkerState::kLost);
  c.engine.Query([&](const Core&, const History&, Instant) { stall(); });
  c.Settle();
  c.Pass(LookShare::kMost * LookShare::kOneIn);  // until queries are answered again
  EXPECT_NE(StateOfTheWorker(c), WorkerState::kLost);
}

// An alert can use that hour; a worker that left in order needs no alert.
TEST_F(Observing, AgeOfALostWorkerIsShownForAnHour) {
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

class RefusedSink final : public UploadSink {
 public:
  void Granted(uint64_t) override { ADD_FAILURE() << "granted"; }
  void Accepted() override { ADD_FAILURE() << "accepted"; }
  void Refused(const absl::Status& status) override { refused = status; }
  absl::Status refused;
};

// The runbook refers people to that line.
TEST_F(Observing, TheReasonOfARefusalIsInTheEventLogOnce) {
  SmallCoordinator c(disk_, clock_);
  const JobSpec spec = TinySpec("tiny");
  ASSERT_TRUE(c.Submit(spec).ok());
  c.Settle();
  const auto sink = std::make_shared<RefusedSink>();
  ContributionHeader header;
  header.job = JobId{"tiny"};
  header.worker = WorkerId{"w"};
  header.codec = spec.sync.upload_codec;
  header.encoded_bytes = 1;
  for (int i = 0; i < 100; ++i) c.engine.OfferUpload(header, BootNumber{1}, sink);
  c.Settle();
  ASSERT_TRUE(absl::IsInvalidArgument(sink->refused)) << sink->refused;
  std::vector<EventLine> lines;
  c.engine.Query([&](const Core&, const History& history, Instant) {
    for (const EventLine& line : history.EventsAfter(JobId{"tiny"}, 0, 1000)) {
      if (line.kind == "upload refused") lines.push_back(line);
    }
  });
  c.Settle();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0].text, HasSubstr(std::string(sink->refused.message())));
  EXPECT_EQ(lines[0].fields.at("worker"), "w");
  EXPECT_EQ(lines[0].fields.at("reason"), "INVALID_ARGUMENT");
  EXPECT_THAT(c.metrics.Expose(), HasSubstr("rejected_total{job=\"tiny\",reason=\"INVALID_ARGUMENT\"} 100\n"));
}

// A member may invent job names; data kept under them would never be deleted.
TEST_F(Observing, NothingIsKeptOfJobsThatAreNot) {
  SmallCoordinator c(disk_, clock_);
  ASSERT_TRUE(c.Submit(TinySpec("tiny")).ok());
  c.Pass(Seconds(2));
  const auto series = [&c] { return std::ranges::count(c.metrics.Expose(), '\n'); };
  const auto sink = std::make_shared<RefusedSink>();
  std::vector<int64_t> seen;
  for (int i = 0; i < 3; ++i) {
    ContributionHeader header;
    header.job = JobId{absl::StrCat("made-up-", i)};
    header.worker = WorkerId{"w"};
    c.engine.OfferUpload(header, BootNumber{1}, sink);
    c.engine.CountDownload(header.job, WorkerId{"w"}, "block", 1000);
    c.Settle();
    EXPECT_FALSE(sink->refused.ok());
    c.engine.Query([&](const Core&, const History& history, Instant) { EXPECT_EQ(history.Find(header.job), nullptr); });
    c.Settle();
    seen.push_back(series());
  }
  EXPECT_EQ(seen[0], seen[2]) << "all of them share one series";
  EXPECT_THAT(c.metrics.Expose(), Not(HasSubstr("made-up")));
  c.engine.CountDownload(JobId{"tiny"}, WorkerId{"w"}, "block", 1000);
  c.Settle();
  EXPECT_THAT(c.metrics.Expose(), HasSubstr("kind=\"block\""));
}

TEST_F(Observing, TheSeriesOfAnEndedJobGoAfterAnHour) {
  SmallCoordinator c(disk_, clock_);
  ASSERT_TRUE(c.Submit(TinySpec("tiny")).ok());
  c.Pass(Seconds(2));
  ASSERT_TRUE(c.Ask(JobControlled{.job = JobId{"tiny"}, .action = JobAction::kCancel}).ok());
  c.Pass(Seconds(3590));
  EXPECT_THAT(c.metrics.Expose(), HasSubstr("job=\"tiny\""));
  c.Pass(Seconds(15));
  EXPECT_THAT(c.metrics.Expose(), Not(HasSubstr("job=\"tiny\"")));
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

// Also for a job that has begun: its state stays RUNNING. A paused job lacks no workers.
TEST_F(Observing, JobReportsItsMissingWorkers) {
  SmallCoordinator c(disk_, clock_);
  const auto missing = [](int workers) {
    return HasSubstr(absl::StrCat("atoll_workers{job=\"tiny\",state=\"missing\"} ", workers, "\n"));
  };
  JobSpec spec = TinySpec("tiny");
  spec.workers.min = 2;
  ASSERT_TRUE(c.Submit(spec).ok());
  c.Pass(Seconds(2));
  EXPECT_THAT(c.metrics.Expose(), missing(2));
  const ConnectionId one = c.engine.OpenControl(HelloOf("w", 1), std::make_shared<KeepingSink>());
  const ConnectionId other = c.engine.OpenControl(HelloOf("v", 1), std::make_shared<KeepingSink>());
  c.Pass(Seconds(2));
  ASSERT_EQ(c.View("tiny").record.state, JobState::kRunning);
  EXPECT_THAT(c.metrics.Expose(), missing(0));
  for (const auto& [gone, lacks] : {std::pair(one, 1), std::pair(other, 2)}) {
    c.engine.ControlSaid(gone, Leaving{"a pause"});
    c.Pass(Seconds(2));
    EXPECT_EQ(c.View("tiny").record.state, JobState::kRunning);
    EXPECT_THAT(c.metrics.Expose(), missing(lacks));
  }
  ASSERT_TRUE(c.Ask(JobControlled{.job = JobId{"tiny"}, .action = JobAction::kPause}).ok());
  c.Pass(Seconds(2));
  EXPECT_THAT(c.metrics.Expose(), missing(0));
  ASSERT_TRUE(c.Ask(JobControlled{.job = JobId{"tiny"}, .action = JobAction::kResume}).ok());
  c.Pass(Seconds(2));
  EXPECT_THAT(c.metrics.Expose(), missing(2));
  ASSERT_TRUE(c.Ask(JobControlled{.job = JobId{"tiny"}, .action = JobAction::kCancel}).ok());
  c.Pass(Seconds(2));
  EXPECT_THAT(c.metrics.Expose(), missing(0));
}

// A stream that floods the engine is closed; calls and completions still arrive.
TEST_F(Observing, AFloodOfMessagesMeetsTheBound) {
  SmallCoordinator c(disk_, clock_);
  const ConnectionId one = c.engine.OpenControl(HelloOf("w", 1), std::make_shared<KeepingSink>());
  const ConnectionId other = c.engine.OpenControl(HelloOf("v", 1), std::make_shared<KeepingSink>());
  c.Settle();
  const auto taken = [&c](ConnectionId connection) {
    size_t messages = 0;
    while (messages <= limits::kMailboxEvents && c.engine.ControlSaid(connection, Leaving{"a flood"})) ++messages;
    return messages;
  };
  EXPECT_EQ(taken(one), limits::kMailboxOfStream);
  EXPECT_EQ(taken(other), limits::kMailboxOfStream) << "one stream leaves room to the others";
  size_t all = 2 * limits::kMailboxOfStream;
  for (ConnectionId more = 1000; more < 1000 + limits::kMailboxEvents / limits::kMailboxOfStream; ++more)
    all += taken(more);
  EXPECT_EQ(all, limits::kMailboxEvents);
  EXPECT_TRUE(c.Submit(TinySpec("tiny")).ok());
  EXPECT_TRUE(c.engine.ControlSaid(one, Leaving{"room again"}));
  // Long messages are bounded by their bytes.
  const LogLines large{.request = 7, .lines = std::vector<std::string>(256, std::string(limits::kTextBytes, 'x'))};
  size_t messages = 0;
  while (messages < limits::kMailboxOfStream && c.engine.ControlSaid(other, large)) ++messages;
  EXPECT_EQ(messages, 3u) << "of a MiB each";
}

// Leases of one sample each: their memory is bounded whatever a member requests.
TEST_F(Observing, LeasesPerWorkerAreLimited) {
  SmallCoordinator c(disk_, clock_);
  JobSpec spec = TinySpec("tiny");
  spec.sync.inner_steps = 2 * limits::kLeasesHeld;
  spec.stop.inner_steps = 4 * spec.sync.inner_steps;
  ASSERT_EQ(c.Submit(spec, 100 * limits::kLeasesHeld), absl::OkStatus());
  const auto sink = std::make_shared<KeepingSink>();
  const ConnectionId worker = c.engine.OpenControl(HelloOf("w", 1), sink);
  c.Pass(Seconds(2));
  ASSERT_EQ(c.View("tiny").record.state, JobState::kRunning);
  c.engine.ControlSaid(worker, Ready{JobId{"tiny"}, 0, {}});
  for (uint64_t request = 1; request <= limits::kLeasesHeld; ++request) {
    c.engine.ControlSaid(worker, LeaseRequest{JobId{"tiny"}, request, 1});
    c.Settle();
    ASSERT_TRUE(std::holds_alternative<LeaseGranted>(sink->sent.back())) << request;
  }
  c.engine.ControlSaid(worker, LeaseRequest{JobId{"tiny"}, limits::kLeasesHeld + 1, 1});
  c.Settle();
  const auto* denied = std::get_if<LeaseDenied>(&sink->sent.back());
  ASSERT_NE(denied, nullptr);
  EXPECT_EQ(denied->reason, "the worker holds 1024 leases; use some of them up first");
  c.engine.ControlSaid(worker, LeaseRequest{JobId{"tiny"}, 7, 1});
  c.Settle();
  EXPECT_TRUE(std::holds_alternative<LeaseGranted>(sink->sent.back())) << "a repetition gets the lease that it has";
}

TEST_F(Observing, AQuestionIsAnsweredWhileTheLedgerIsAlwaysBusy) {
  SmallCoordinator c(disk_, clock_);
  bool answered = false;
  int turns = 0;
  c.engine.Query([&answered](const Core&, const History&, Instant) { answered = true; });
  while (!answered && turns < 50) {
    // The second arrives while the first record is flushed, so that the next flush begins when the
    // first ends.
    for (const std::string name : {"a", "b"}) {
      c.engine.OpenControl(HelloOf(absl::StrCat(name, turns), 1), std::make_shared<KeepingSink>());
      (void)c.engine.Turn();
    }
    c.RunWork();
    ++turns;
    clock_.Set(clock_.Now() + Milliseconds(100));
  }
  EXPECT_TRUE(answered);
  EXPECT_THAT(turns, AllOf(Gt(2), Lt(8)));
  c.Settle();
  c.engine.Query([turns](const Core& core, const History&, Instant now) {
    EXPECT_EQ(core.ViewWorkers(now).size(), 2 * static_cast<size_t>(turns)) << "those who came meanwhile are not lost";
  });
  c.Settle();
}

// Each flush takes 0.9 s and events arrive all the time: two flushes do not fit into the first
// hold. Queries and watchers are still served, again and again.
TEST_F(Observing, QuestionsAreAnsweredOnASlowDisk) {
  SmallCoordinator c(disk_, clock_);
  ASSERT_TRUE(c.Submit(TinySpec("tiny")).ok());
  int answered = 0, shown = 0, turns = 0;
  const auto ask = [&] { c.engine.Query([&answered](const Core&, const History&, Instant) { ++answered; }); };
  c.engine.Watch(JobId{"tiny"}, 0, {[&shown](const absl::StatusOr<const JobGlance*>&) { ++shown; }});
  ask();
  for (int asked = 1; turns < 300; ++turns) {
    c.engine.OpenControl(HelloOf(absl::StrCat("w", turns), 1), std::make_shared<KeepingSink>());
    (void)c.engine.Turn();
    if (turns % 9 == 8) c.RunWork();
    clock_.Set(clock_.Now() + Milliseconds(100));
    if (answered == asked) ask(), ++asked;
  }
  EXPECT_GE(answered, 5) << "in 30 s";
  EXPECT_GE(shown, 5) << "in 30 s";
}

// Ledger flushes are unrelated to the health of the engine.
TEST_F(Observing, AProbeWaitsForNoLedger) {
  SmallCoordinator c(disk_, clock_);
  c.engine.Query([](const Core&, const History&, Instant) {});
  for (int turns = 0; turns < 20; ++turns) {  // of one flush
    c.engine.OpenControl(HelloOf(absl::StrCat("w", turns), 1), std::make_shared<KeepingSink>());
    bool answered = false;
    c.engine.Probe([&answered] { answered = true; });
    (void)c.engine.Turn();
    EXPECT_TRUE(answered) << turns;
    clock_.Set(clock_.Now() + Milliseconds(100));
  }
  c.Settle();
}

TEST_F(Observing, WorkerCannotAnswerForAnothersLogs) {
  SmallCoordinator c(disk_, clock_);
  const auto sink = std::make_shared<KeepingSink>();
  const ConnectionId asked = c.engine.OpenControl(HelloOf("w", 1), sink);
  const ConnectionId other = c.engine.OpenControl(HelloOf("v", 1), std::make_shared<KeepingSink>());
  c.Settle();
  std::vector<std::string> told;
  c.engine.WantLogs(WorkerId{"w"}, 10, 0, [&told](const auto& lines) { told = *lines; });
  c.Settle();
  const auto wanted = std::get<LogsWanted>(sink->sent.back());
  c.engine.ControlSaid(other, LogLines{wanted.request, {"forged"}});
  c.Settle();
  EXPECT_TRUE(told.empty());
  c.engine.ControlSaid(asked, LogLines{wanted.request, {"mine"}});
  c.Settle();
  EXPECT_EQ(told, std::vector<std::string>{"mine"});
}

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
