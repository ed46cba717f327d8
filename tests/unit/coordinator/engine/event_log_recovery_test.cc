// SPDX-License-Identifier: Apache-2.0
// The event log at a start. After a crash between a commit and its line the ledger has the merge,
// and the start writes the line. Times used by alerts are available at once.
#include <gtest/gtest.h>

#include <map>

#include "common/plan/limits.h"
#include "coordinator/engine/observer.h"
#include "tests/support/manual_clock.h"
#include "tests/unit/coordinator/engine/small_coordinator.h"

namespace atl {
namespace {

const JobId kJob{"tiny"};

RoundRecord Round(uint64_t epoch, uint64_t version) {
  ContributionHeader header;
  header.job = kJob;
  header.worker = WorkerId{"a"};
  header.target = {FragmentIndex{0}, Version{version - 1}};
  header.tokens = 100;
  header.encoded_bytes = 64;
  header.mean_loss_micro = static_cast<int64_t>(5'000'000 - version);
  return {.job = kJob,
          .epoch = epoch,
          .reached = {FragmentIndex{0}, Version{version}},
          .contributions = {{header, 1.0, 1.0}},
          .hash = {0, version},
          .clock_step = 10 * version,
          .tokens = 100,
          .wall_nanos = static_cast<int64_t>(1000 + version)};
}

class DeafSink final : public ControlSink {
 public:
  void Send(const CoordinatorMessage&) override {}
  void Close() override {}
};

class EventLogRecovery : public testing::Test {
 protected:
  EventLogRecovery() {
    job_.job = kJob;
    job_.sequence = 1;
    job_.spec = TinySpec("tiny");
    job_.fragments = 1;
    job_.state = JobState::kSucceeded;
    Commit(job_);
    PoolRecord pool;
    pool.job = kJob;
    Commit(pool);
  }
  void Commit(LedgerRecord record) { disk_.ledger.transactions.push_back({std::move(record)}); }
  void Log(uint64_t revision, uint64_t epoch, uint64_t version) {
    const auto log = EventLog::Open(disk_.files, {.directory = "/state/events"});
    ASSERT_TRUE(log.ok());
    ASSERT_TRUE(
        (*log)
            ->Append({kJob,
                      revision,
                      5,
                      "round committed",
                      "as it was",
                      {{"fragment", "0"}, {"version", std::to_string(version)}, {"epoch", std::to_string(epoch)}},
                      {{"loss", 10 * version, 5.0}},
                      {}})
            .ok());
  }
  // A log longer than the part that is read for an ended job: `merges` merges with a curve, then
  // the job's end.
  void LogToItsEnd(uint64_t merges, bool with_end) {
    const auto log = *EventLog::Open(disk_.files, {.directory = "/state/events"});
    LoggedEvent line{kJob, 0, 5, "round committed", std::string(600, 'x'), {}, {}, {}};
    for (uint64_t version = 1; version <= merges; ++version) {
      line.revision = version;
      line.fields = {{"fragment", "0"}, {"version", std::to_string(version)}, {"epoch", "0"}};
      line.fields["uploaded_bytes_total"] = std::to_string(10 * version);
      line.points = {{"loss", 10 * version, 5.0}};
      ASSERT_TRUE(log->Append(line).ok());
    }
    if (with_end) {
      ASSERT_TRUE(log->Append({kJob, merges + 1, 5, "state", "ended", {{"state", "SUCCEEDED"}}, {}, {}}).ok());
    }
  }
  struct Shown {
    size_t events = 0, points = 0;
    double loss = 0;
    uint64_t uploaded = 0, newest = 0;
  };
  static Shown ShownOf(const History& history) {
    const JobHistory& of_job = *history.Find(kJob);
    const auto loss = of_job.curves.find("loss");
    return {of_job.events.size(), loss == of_job.curves.end() ? 0 : loss->second.points().size(), of_job.last_loss,
            of_job.uploaded_total, of_job.events.empty() ? 0 : of_job.events.back().revision};
  }
  // (epoch, version) -> number of lines; checks that revisions grow.
  std::map<std::pair<std::string, std::string>, int> Merges(const SmallCoordinator& c) {
    std::map<std::pair<std::string, std::string>, int> merges;
    uint64_t last = 0;
    const auto read = c.events->Read(kJob, [&](const LoggedEvent& event) {
      EXPECT_GT(event.revision, last);
      last = event.revision;
      newest_ = event;
      if (event.kind != "round committed") return;
      merge_ = event;
      ++merges[{event.fields.at("epoch"), event.fields.at("version")}];
    });
    EXPECT_TRUE(read.ok());
    return merges;
  }

  SmallDisk disk_;
  ManualClock clock_;
  JobRecord job_;
  LoggedEvent newest_, merge_;
};

using Counts = std::map<std::pair<std::string, std::string>, int>;

TEST_F(EventLogRecovery, TheLostTailIsWrittenFromTheLedgerOnce) {
  for (uint64_t version = 1; version <= 3; ++version) Commit(Round(0, version));
  Log(1, 0, 1);
  {
    SmallCoordinator c(disk_, clock_);
    EXPECT_EQ(Merges(c), (Counts{{{"0", "1"}, 1}, {{"0", "2"}, 1}, {{"0", "3"}, 1}}));
    EXPECT_EQ(merge_.fields.at("members"), "a");
    EXPECT_EQ(merge_.fields.at("tokens"), "100");
    EXPECT_EQ(merge_.fields.at("loss"), "4.999997");
    EXPECT_EQ(merge_.fields.at("from_ledger"), "true");
    EXPECT_EQ(merge_.wall_nanos, 1003);
    ASSERT_EQ(merge_.points.size(), 1u);
    EXPECT_EQ(merge_.points[0].step, 30u);
  }
  SmallCoordinator again(disk_, clock_);
  EXPECT_EQ(Merges(again).size(), 3u);
  for (const auto& [merge, lines] : Merges(again)) EXPECT_EQ(lines, 1);
}

TEST_F(EventLogRecovery, ALossFarAboveTheOthersIsBounded) {
  RoundRecord round = Round(0, 1);
  round.contributions.push_back(round.contributions[0]);
  round.contributions[1].header.worker = WorkerId{"liar"};
  round.contributions[1].header.mean_loss_micro = limits::kMostLossMicro;
  Commit(round);
  SmallCoordinator c(disk_, clock_);
  EXPECT_EQ(Merges(c).size(), 1u);
  EXPECT_EQ(merge_.fields.at("loss"), "19.139999") << "(4.999999 + 33.28) / 2";
  EXPECT_EQ(merge_.fields.at("loss_bounded"), "liar");
}

// There may be thousands of ended jobs: a start reads only what lists show.
TEST_F(EventLogRecovery, ThePastOfAnEndedJobIsReadWhenItIsAskedFor) {
  LogToItsEnd(2500, true);
  SmallCoordinator c(disk_, clock_);
  Shown before, asked;
  c.engine.Query([&](const Core&, const History& history, Instant) { before = ShownOf(history); });
  c.Settle();
  EXPECT_LT(before.events, 200u);
  EXPECT_LT(before.points, 200u);
  EXPECT_EQ(before.loss, 5.0);
  EXPECT_EQ(before.uploaded, 25'000u);
  EXPECT_EQ(before.newest, 2501u);
  c.engine.QueryPast(kJob, [&](const Core&, const History& history, Instant) { asked = ShownOf(history); });
  c.Settle();
  EXPECT_EQ(asked.events, History::kEventsKept);
  EXPECT_EQ(asked.points, 2500u);
  EXPECT_EQ(asked.loss, 5.0);
  EXPECT_EQ(asked.uploaded, 25'000u);
  EXPECT_EQ(asked.newest, 2501u);
}

TEST_F(EventLogRecovery, WatchOfAnEndedJobShowsItsPast) {
  LogToItsEnd(2500, true);
  SmallCoordinator c(disk_, clock_);
  size_t events = 0, losses = 0, shown = 0;
  c.engine.Watch(kJob, 1, {[&](const absl::StatusOr<const JobGlance*>& glance) {
                   ASSERT_TRUE(glance.ok());
                   events = (*glance)->events.size();
                   losses = (*glance)->recent_losses.size();
                   ++shown;
                 }});
  c.Settle();
  EXPECT_EQ(shown, 1u) << "it has ended";
  EXPECT_EQ(events, History::kEventsKept);
  EXPECT_EQ(losses, 120u);
}

// The log of a job that lost its last lines in a crash is read and completed at the start, however
// long it is.
TEST_F(EventLogRecovery, ALongLogWithoutItsEndIsCompleted) {
  for (uint64_t version = 1; version <= 2502; ++version) Commit(Round(0, version));
  LogToItsEnd(2500, false);
  SmallCoordinator c(disk_, clock_);
  EXPECT_EQ(Merges(c).size(), 2502u);
  Shown shown;
  c.engine.Query([&](const Core&, const History& history, Instant) { shown = ShownOf(history); });
  c.Settle();
  EXPECT_EQ(shown.points, 2502u);
}

// So that the next start reads only the end of the log.
TEST_F(EventLogRecovery, TheLostLineOfTheEndIsWrittenOnce) {
  for (uint64_t version = 1; version <= 2500; ++version) Commit(Round(0, version));
  LogToItsEnd(2500, false);
  {
    SmallCoordinator c(disk_, clock_);
    EXPECT_EQ(Merges(c).size(), 2500u);
    EXPECT_EQ(newest_.kind, "state");
    EXPECT_EQ(newest_.text, "job tiny is SUCCEEDED");
    EXPECT_EQ(newest_.fields.at("from_ledger"), "true");
    EXPECT_EQ(newest_.fields.at("uploaded_bytes_total"), "25000");
    EXPECT_EQ(newest_.revision, 2501u);
  }
  SmallCoordinator again(disk_, clock_);
  Shown shown;
  again.engine.Query([&](const Core&, const History& history, Instant) { shown = ShownOf(history); });
  again.Settle();
  EXPECT_LT(shown.events, 200u);
  EXPECT_EQ(shown.newest, 2501u);
}

TEST_F(EventLogRecovery, OnlyTheEndOfALongLogIsRead) {
  {
    const auto log = *EventLog::Open(disk_.files, {.directory = "/state/events"});
    for (uint64_t revision = 1; revision <= 2500; ++revision)
      ASSERT_TRUE(log->Append({kJob, revision, 5, "worker joined", std::string(600, 'x'), {}, {}, {}}).ok());
    ASSERT_TRUE(log->Append({kJob, 2501, 5, "state", "ended", {{"state", "SUCCEEDED"}}, {}, {}}).ok());
  }
  SmallCoordinator c(disk_, clock_);
  bool all = false;
  c.engine.Query([&](const Core&, const History& history, Instant) {
    all = history.Find(kJob)->events.front().revision == 2501 - History::kEventsKept + 1;
  });
  c.Settle();
  EXPECT_TRUE(all);
  EXPECT_EQ(Merges(c).size(), 0u);
  EXPECT_EQ(newest_.revision, 2501u);
}

// The duration of a round is known only after one has closed.
TEST_F(EventLogRecovery, RemainingTimeIsShownFromTheFirstRound) {
  SmallCoordinator c(disk_, clock_);
  History history;
  Metrics metrics;
  atl::Log log{{.to_stderr = false}};
  Observer observer(history, *c.events, metrics, log, clock_);
  JobGlance glance;
  glance.view.record.job = kJob;
  glance.view.record.state = JobState::kRunning;
  glance.view.record.stop_step = 400;
  const auto left_at = [&](uint64_t step, int64_t seconds, uint64_t rounds) {
    glance.seconds_left = -1;
    glance.view.clock_step = step;
    glance.view.rounds_committed = rounds;
    observer.NoteClock(glance.view, Instant{} + Seconds(seconds));
    ObserveRates(glance, Instant{} + Seconds(seconds), observer);
    return glance.seconds_left;
  };
  EXPECT_LT(left_at(0, 0, 0), 0);
  EXPECT_LT(left_at(90, 1000, 0), 0);
  EXPECT_LT(left_at(100, 1010, 1), 0) << "the first look";
  EXPECT_DOUBLE_EQ(left_at(200, 1020, 2), 20);
}

// An unreadable log has unknown contents, so no line is known to be missing.
TEST_F(EventLogRecovery, NothingIsWrittenAgainIntoALogThatCannotBeRead) {
  for (uint64_t version = 1; version <= 3; ++version) Commit(Round(0, version));
  Log(1, 0, 1);
  Log(2, 0, 2);
  disk_.files.FailReads("/events/");
  { SmallCoordinator c(disk_, clock_); }
  disk_.files.FailReads("");
  const auto log = *EventLog::Open(disk_.files, {.directory = "/state/events"});
  size_t lines = 0;
  ASSERT_TRUE(log->Read(kJob, [&lines](const LoggedEvent&) { ++lines; }).ok());
  EXPECT_EQ(lines, 2u);
  SmallCoordinator again(disk_, clock_);
  EXPECT_EQ(Merges(again), (Counts{{{"0", "1"}, 1}, {{"0", "2"}, 1}, {{"0", "3"}, 1}}));
}

// Before the next append the log checks again whether its last line is complete.
TEST_F(EventLogRecovery, ALogThatCouldNotBeReadAtFirstLosesNoMoreThanItsTornLine) {
  Log(1, 0, 1);
  const std::string path = "/state/events/tiny.jsonl";
  disk_.files.At(path).resize(disk_.files.At(path).size() - 10);
  const auto log = *EventLog::Open(disk_.files, {.directory = "/state/events"});
  const LoggedEvent line{kJob, 2, 5, "worker joined", "", {}, {}, {}};
  disk_.files.FailReads("/events/");
  EXPECT_FALSE(log->Append(line).ok());
  disk_.files.FailReads("");
  ASSERT_TRUE(log->Append(line).ok());
  size_t lines = 0;
  const auto skipped = log->Read(kJob, [&lines](const LoggedEvent&) { ++lines; });
  EXPECT_EQ(lines, 1u);
  EXPECT_EQ(skipped.value_or(0), 1u);
}

TEST_F(EventLogRecovery, ALogThatIsGoneComesBackWhole) {
  for (uint64_t version = 1; version <= 4; ++version) Commit(Round(0, version));
  SmallCoordinator c(disk_, clock_);
  EXPECT_EQ(Merges(c).size(), 4u);
}

// Traffic totals of each worker continue after a restart, as the job's totals do.
TEST_F(EventLogRecovery, TheAccountsOfWorkersGoOn) {
  const auto log = EventLog::Open(disk_.files, {.directory = "/state/events"});
  ASSERT_TRUE(log.ok());
  const auto line = [&](uint64_t revision, std::vector<LoggedTransfer> transfers) {
    ASSERT_TRUE((*log)->Append({kJob, revision, 5, "note", "", {}, {}, std::move(transfers)}).ok());
  };
  line(1, {{WorkerId{"a"}, 10, 20}, {WorkerId{"b"}, 30, 40}});
  line(2, {{WorkerId{"b"}, 31, 42}});
  SmallCoordinator c(disk_, clock_);
  std::map<WorkerId, uint64_t> up, down;
  c.engine.Query([&](const Core&, const History& history, Instant) {
    up = history.Find(kJob)->uploaded_bytes;
    down = history.Find(kJob)->downloaded_bytes;
  });
  c.Settle();
  EXPECT_EQ(up, (std::map<WorkerId, uint64_t>{{WorkerId{"a"}, 10}, {WorkerId{"b"}, 31}}));
  EXPECT_EQ(down, (std::map<WorkerId, uint64_t>{{WorkerId{"a"}, 20}, {WorkerId{"b"}, 42}}));
}

TEST_F(EventLogRecovery, RevisionsOfTheFleetGoOn) {
  for (int start = 0; start < 2; ++start) {
    SmallCoordinator c(disk_, clock_);
    c.engine.OpenControl(Hello{.worker = WorkerId{"a"}, .start_nonce = 1}, std::make_shared<DeafSink>());
    c.Settle();
  }
  SmallCoordinator c(disk_, clock_);
  std::vector<uint64_t> revisions;
  ASSERT_TRUE(c.events->Read(JobId{}, [&](const LoggedEvent& event) { revisions.push_back(event.revision); }).ok());
  ASSERT_GE(revisions.size(), 2u);
  for (size_t i = 0; i < revisions.size(); ++i) EXPECT_EQ(revisions[i], i + 1);
}

TEST_F(EventLogRecovery, AGapIsFilledWithoutTurningTheCurveBack) {
  for (uint64_t version = 1; version <= 3; ++version) Commit(Round(0, version));
  Log(1, 0, 1);
  Log(2, 0, 3);
  SmallCoordinator c(disk_, clock_);
  EXPECT_EQ(Merges(c), (Counts{{{"0", "1"}, 1}, {{"0", "2"}, 1}, {{"0", "3"}, 1}}));
  EXPECT_EQ(merge_.fields.at("version"), "2");
  EXPECT_TRUE(merge_.points.empty());
}

TEST_F(EventLogRecovery, RoundsBeforeAndAfterARollbackAreShown) {
  for (uint64_t version = 1; version <= 3; ++version) Commit(Round(0, version));
  CheckpointRecord checkpoint;
  checkpoint.job = kJob;
  checkpoint.step = 20;
  checkpoint.versions = {Version{2}};
  checkpoint.hashes = {Digest{0, 2}};
  checkpoint.complete = true;
  Commit(checkpoint);
  job_.epoch = 1;
  disk_.ledger.transactions.push_back({RollbackRecord{kJob, 1, {Version{2}}}, job_});
  Commit(Round(1, 3));
  Log(1, 0, 1);
  Log(2, 0, 2);
  SmallCoordinator c(disk_, clock_);
  EXPECT_EQ(Merges(c), (Counts{{{"0", "1"}, 1}, {{"0", "2"}, 1}, {{"0", "3"}, 1}, {{"1", "3"}, 1}}));
}

// ---- times used by alerts

class TimesAfterAStart : public EventLogRecovery {
 protected:
  static std::string Value(const SmallCoordinator& c, const std::string& of) {
    const std::string text = c.metrics.Expose(),
                      name = "\natoll_" + of + "_last_success_timestamp_seconds{job=\"tiny\"} ";
    const size_t at = text.find(name);
    if (at == std::string::npos) return "absent";
    const size_t value = at + name.size();
    return text.substr(value, text.find('\n', value) - value);
  }
  void Checkpoint(uint64_t step, bool complete, int64_t seconds) {
    CheckpointRecord checkpoint;
    checkpoint.job = kJob;
    checkpoint.step = step;
    checkpoint.versions = {Version{1}};
    checkpoint.hashes = {Digest{0, 1}};
    checkpoint.complete = complete;
    checkpoint.wall_nanos = Seconds(seconds).ns;
    Commit(checkpoint);
  }
  void Start(JobState state, uint32_t checkpoint_every) {
    job_.state = state;
    job_.start_wall_nanos = Seconds(1000).ns;
    job_.spec.checkpoint.every_rounds = checkpoint_every;
    Commit(job_);
  }
};

TEST_F(TimesAfterAStart, AreThoseOfTheLedger) {
  Start(JobState::kPaused, 5);
  for (uint64_t version = 1; version <= 2; ++version) {
    RoundRecord round = Round(0, version);
    round.wall_nanos = Seconds(2000 + static_cast<int64_t>(version)).ns;
    Commit(round);
  }
  Checkpoint(10, true, 1500);
  Checkpoint(20, true, 1800);
  Checkpoint(30, false, 0);
  SmallCoordinator c(disk_, clock_);
  EXPECT_EQ(Value(c, "round"), "2002");
  EXPECT_EQ(Value(c, "checkpoint"), "1800");
}

TEST_F(TimesAfterAStart, BeginWithTheJob) {
  Start(JobState::kPaused, 5);
  SmallCoordinator c(disk_, clock_);
  EXPECT_EQ(Value(c, "round"), "1000");
  EXPECT_EQ(Value(c, "checkpoint"), "1000");
}

TEST_F(TimesAfterAStart, UnwantedCheckpointHasNoAge) {
  Start(JobState::kPaused, 0);
  SmallCoordinator c(disk_, clock_);
  EXPECT_EQ(Value(c, "round"), "1000");
  EXPECT_EQ(Value(c, "checkpoint"), "absent");
}

TEST_F(TimesAfterAStart, LastCheckpointIsNotStaleIfNoMoreAreWanted) {
  Start(JobState::kPaused, 0);
  Checkpoint(10, true, 1500);
  SmallCoordinator c(disk_, clock_);
  EXPECT_EQ(Value(c, "checkpoint"), "absent");
}

// The time since when an updated job wants checkpoints is unknown.
TEST_F(TimesAfterAStart, BeginWithTheCoordinatorWhereTheJobWasUpdated) {
  job_.spec_revision = 2;
  Start(JobState::kPaused, 5);
  const std::string start = std::to_string(clock_.WallNanos() / 1'000'000'000);
  SmallCoordinator c(disk_, clock_);
  EXPECT_EQ(Value(c, "checkpoint"), start);
  EXPECT_EQ(Value(c, "round"), "1000");
}

TEST_F(TimesAfterAStart, EndedJobHasNoTimes) {
  Start(JobState::kSucceeded, 5);
  Commit(Round(0, 1));
  Checkpoint(10, true, 1500);
  SmallCoordinator c(disk_, clock_);
  EXPECT_EQ(Value(c, "round"), "absent");
  EXPECT_EQ(Value(c, "checkpoint"), "absent");
}

// No round was committed yet; an alert must be able to report that this lasts.
TEST_F(TimesAfterAStart, AreShownFromAJobsFirstStart) {
  SmallDisk disk;
  SmallCoordinator c(disk, clock_);
  JobSpec spec = TinySpec("tiny");
  spec.checkpoint.every_rounds = 5;
  ASSERT_TRUE(c.Submit(spec).ok());
  c.Pass(Seconds(100));
  EXPECT_EQ(Value(c, "round"), "absent") << "it waits for workers";
  Hello hello;
  hello.protocol_revision = kProtocolRevision;
  hello.arithmetic_revision = kArithmeticRevision;
  hello.worker = WorkerId{"a"};
  hello.start_nonce = 1;
  c.engine.OpenControl(hello, std::make_shared<DeafSink>());
  c.Settle();
  ASSERT_EQ(c.View("tiny").record.state, JobState::kRunning);
  const std::string start = std::to_string(clock_.WallNanos() / 1'000'000'000);
  c.Pass(Seconds(100));
  EXPECT_EQ(Value(c, "round"), start);
  EXPECT_EQ(Value(c, "checkpoint"), start);
  for (const uint32_t every : {0u, 3u}) {
    spec.checkpoint.every_rounds = every;
    ASSERT_TRUE(c.Ask(JobUpdated{.job = JobId{"tiny"}, .spec = spec, .stop_step = PlannedInnerSteps(spec)}).ok());
    const std::string update = std::to_string(clock_.WallNanos() / 1'000'000'000);
    c.Pass(Seconds(100));
    EXPECT_EQ(Value(c, "checkpoint"), every == 0 ? "absent" : update);
  }
}

}  // namespace
}  // namespace atl
