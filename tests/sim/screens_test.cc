// SPDX-License-Identifier: Apache-2.0
// The norm screen in whole runs. A worker with far too large contributions changes nothing, gets
// the reason, and stays excluded until an operator readmits it. Clipped contributions are
// recomputed to the bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/base/random.h"
#include "common/plan/job_validation.h"
#include "coordinator/engine/direction_watch.h"
#include "tests/sim/state_on_disk.h"

namespace atl {
namespace {

using testing::HasSubstr;

constexpr char kJob[] = "small";
constexpr uint64_t kRounds = 14;

// One corpus per worker, so that a worker's samples do not depend on the other workers.
JobSpec FiveCorpora(Harness& h) {
  JobSpec spec = SmallJob(kJob);
  const Sha256 manifest = spec.data.corpora[0].manifest;
  StoreManifest(h);
  spec.data.corpora.clear();
  for (const char* name : {"one", "two", "three", "four", "five"})
    spec.data.corpora.push_back({.name = name, .manifest = manifest, .samples = 1000});
  spec.data.pin_shards = true;
  spec.workers = {.min = 4, .max = 5, .planned = 4};
  spec.stop.inner_steps = 10 * kRounds;
  spec.checkpoint.keep_contributions = true;
  return spec;
}

void StartHonest(Harness& h, const JobSpec& spec) {
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(spec).ok());
  for (const char* name : {"a", "b", "c", "d"}) h.StartWorkerOfSpeed(name, Milliseconds(50));
}

bool Reached(const Harness& h, uint64_t version) {
  const std::optional<JobView> view = h.View(kJob);
  return view && view->fragments[0].version.value >= version;
}

WorkerView ViewOf(const Harness& h, const std::string& worker) {
  for (const WorkerView& view : h.ViewWorkers()) {
    if (view.worker.value == worker) return view;
  }
  return {};
}

bool IsQuarantined(const Harness& h, const std::string& worker) {
  return h.coordinator_runs() && ViewOf(h, worker).state == WorkerState::kQuarantined;
}

void ExpectEveryRoundEqual(Harness& h, size_t rounds) {
  h.KillCoordinator();
  const StateOnDisk state(h);
  EXPECT_TRUE(state.Verify().ok()) << state.Verify().Text();
  const audit::Report replay = state.Replay();
  EXPECT_TRUE(replay.ok()) << replay.Text();
  EXPECT_EQ(replay.count("rounds equal"), rounds) << replay.Text();
}

std::map<uint64_t, Digest> HashesWithoutTheHostileWorker() {
  Harness h;
  StartHonest(h, FiveCorpora(h));
  EXPECT_TRUE(h.RunUntil([&] { return h.Ended(kJob); })) << h.View(kJob)->waiting_line;
  return h.CommittedHashes(kJob);
}

TEST(Screens, AHostileWorkerChangesNothingAndIsToldWhy) {
  const std::map<uint64_t, Digest> without = HashesWithoutTheHostileWorker();
  ASSERT_GE(without.size(), kRounds);
  Harness h;
  ASSERT_NO_FATAL_FAILURE(StartHonest(h, FiveCorpora(h)));
  ASSERT_TRUE(h.RunUntil([&] { return Reached(h, 9); }));
  h.StartHostileWorker("e", 1000);
  ASSERT_TRUE(h.RunUntil([&] { return IsQuarantined(h, "e"); }));
  const std::string why = ViewOf(h, "e").last.waiting_for;
  EXPECT_THAT(why, HasSubstr("worker e is quarantined, since its contribution to fragment 0 of job small was refused: "
                             "its norm per inner step is"));
  EXPECT_THAT(why, HasSubstr("times the median of the fragment; look at its machine, then 'atoll worker readmit e'"));
  EXPECT_THAT(h.MetricsPage(), HasSubstr("atoll_contributions_screened_total{job=\"small\",outcome=\"refused\"} 1"));
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); })) << h.View(kJob)->waiting_line;
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded) << h.View(kJob)->record.reason;
  for (const auto& [version, round] : h.CommittedRounds(kJob)) EXPECT_EQ(round.contributions.size(), 4u) << version;
  EXPECT_EQ(h.CommittedHashes(kJob), without);
  ExpectEveryRoundEqual(h, without.size());
}

TEST(Screens, ARestartForgetsNeitherTheMedianNorTheQuarantine) {
  Harness h;
  ASSERT_NO_FATAL_FAILURE(StartHonest(h, FiveCorpora(h)));
  ASSERT_TRUE(h.RunUntil([&] { return Reached(h, 9); }));
  h.KillCoordinator();
  h.StartCoordinator();
  h.StartHostileWorker("e", 1000);
  ASSERT_TRUE(h.RunUntil([&] { return IsQuarantined(h, "e"); }));
  h.KillCoordinator();
  h.StartCoordinator();
  EXPECT_TRUE(IsQuarantined(h, "e"));
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); })) << h.View(kJob)->waiting_line;
  for (const auto& [version, round] : h.CommittedRounds(kJob)) {
    for (const CommittedContribution& c : round.contributions) EXPECT_NE(c.header.worker.value, "e") << version;
  }
}

// A start at a checkpoint, after a rollback: the norm history belongs to the epoch, not to the
// checkpoint.
TEST(Screens, ARestartAtACheckpointBehindARollbackForgetsNoMedian) {
  Harness h;
  JobSpec spec = FiveCorpora(h);
  spec.checkpoint.every_rounds = 1;
  ASSERT_NO_FATAL_FAILURE(StartHonest(h, spec));
  ASSERT_TRUE(h.RunUntil([&] { return Reached(h, 2); }));
  ASSERT_TRUE(h.Control(kJob, JobAction::kPause).ok());
  h.RunFor(Seconds(30));
  const CheckpointRecord checkpoint = h.View(kJob)->checkpoints.front();
  ASSERT_TRUE(h.Ask(JobRolledBack{.job = JobId{kJob}, .checkpoint_step = checkpoint.step, .wall_nanos = 1}).ok());
  ASSERT_TRUE(h.Control(kJob, JobAction::kResume).ok());
  const auto at_a_checkpoint = [&] {
    const std::optional<JobView> view = h.View(kJob);
    return Reached(h, checkpoint.versions[0].value + kNormRoundsNeeded) && !view->checkpoints.empty() &&
           view->checkpoints.back().complete && view->checkpoints.back().versions[0] == view->fragments[0].version;
  };
  ASSERT_TRUE(h.RunUntil(at_a_checkpoint)) << h.View(kJob)->waiting_line;
  h.KillCoordinator();
  h.StartCoordinator();
  h.StartHostileWorker("e", 1000);
  ASSERT_TRUE(h.RunUntil([&] { return IsQuarantined(h, "e") || h.Ended(kJob); })) << h.View(kJob)->waiting_line;
  EXPECT_TRUE(IsQuarantined(h, "e"));
  for (const auto& [version, round] : h.CommittedRounds(kJob)) {
    for (const CommittedContribution& c : round.contributions) EXPECT_NE(c.header.worker.value, "e") << version;
  }
}

TEST(Screens, AReadmittedWorkerMayTryAgain) {
  Harness h;
  ASSERT_NO_FATAL_FAILURE(StartHonest(h, FiveCorpora(h)));
  ASSERT_TRUE(h.RunUntil([&] { return Reached(h, 9); }));
  EXPECT_EQ(h.Ask(WorkerSteered{.worker = WorkerId{"a"}, .action = WorkerAction::kReadmit}).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(h.Ask(WorkerSteered{.worker = WorkerId{"z"}, .action = WorkerAction::kReadmit}).code(),
            absl::StatusCode::kNotFound);
  h.StartHostileWorker("e", 1000);
  ASSERT_TRUE(h.RunUntil([&] { return IsQuarantined(h, "e"); }));
  h.KillWorker("e");  // its owner repairs it
  ASSERT_TRUE(h.Ask(WorkerSteered{.worker = WorkerId{"e"}, .action = WorkerAction::kReadmit}).ok());
  h.StartWorkerOfSpeed("e", Milliseconds(50));
  ASSERT_TRUE(h.RunUntil([&] {
    const std::map<uint64_t, RoundRecord> rounds = h.CommittedRounds(kJob);
    return rounds.rbegin()->second.contributions.size() == 5;
  })) << h.View(kJob)->waiting_line;
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); })) << h.View(kJob)->waiting_line;
}

// The job needs this worker for workers.min: without it the round would wait forever.
TEST(Screens, AReadmittedWorkerMayTryAgainAtTheVersionThatItWasRefusedAt) {
  for (const bool restarts : {false, true}) {
    Harness h;
    ASSERT_NO_FATAL_FAILURE(StartHonest(h, FiveCorpora(h)));
    ASSERT_TRUE(h.RunUntil([&] { return Reached(h, 9); }));
    h.KillWorker("a");
    h.StartHostileWorker("a", 1000);
    ASSERT_TRUE(h.RunUntil([&] { return IsQuarantined(h, "a"); }));
    const uint64_t refused_at = h.VersionOf(kJob).value;
    h.KillWorker("a");  // its owner repairs it
    ASSERT_TRUE(h.Ask(WorkerSteered{.worker = WorkerId{"a"}, .action = WorkerAction::kReadmit}).ok());
    if (restarts) h.KillCoordinator();
    if (restarts) h.StartCoordinator();
    h.StartWorkerOfSpeed("a", Milliseconds(50));
    ASSERT_TRUE(h.RunUntil([&] { return Reached(h, refused_at + 1); })) << h.View(kJob)->waiting_line;
    EXPECT_EQ(h.CommittedRounds(kJob).at(refused_at + 1).contributions.size(), 4u);
    ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); })) << h.View(kJob)->waiting_line;
    ExpectEveryRoundEqual(h, h.CommittedRounds(kJob).size());
  }
}

TEST(Screens, WhatIsClippedIsRecomputedToTheBit) {
  Harness h;
  JobSpec spec = FiveCorpora(h);
  spec.screens.norm = ScreenMode::kClip;
  ASSERT_NO_FATAL_FAILURE(StartHonest(h, spec));
  ASSERT_TRUE(h.RunUntil([&] { return Reached(h, 9); }));
  h.StartHostileWorker("e", 1000);
  const auto clipped = [&] {
    size_t count = 0;
    for (const auto& [version, round] : h.CommittedRounds(kJob)) {
      for (const CommittedContribution& c : round.contributions) {
        EXPECT_GT(c.norm, 0);
        EXPECT_EQ(c.clip_factor < 1, c.header.worker.value == "e") << version;
        count += c.clip_factor < 1 ? 1 : 0;
      }
    }
    return count;
  };
  ASSERT_TRUE(h.RunUntil([&] { return clipped() >= 1; }));
  h.KillCoordinator();
  h.StartCoordinator();
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); })) << h.View(kJob)->waiting_line;
  EXPECT_GE(clipped(), 2u);
  ExpectEveryRoundEqual(h, h.CommittedRounds(kJob).size());
}

TEST(Screens, StrikesRunningQuarantine) {
  Harness h;
  JobSpec spec = FiveCorpora(h);
  spec.screens.refuse_above = 1e9;
  spec.screens.strikes = 2;
  ASSERT_NO_FATAL_FAILURE(StartHonest(h, spec));
  ASSERT_TRUE(h.RunUntil([&] { return Reached(h, 9); }));
  h.StartHostileWorker("e", 1000);
  ASSERT_TRUE(h.RunUntil([&] { return !ViewOf(h, "e").screened.empty(); }));
  EXPECT_THAT(ViewOf(h, "e").screened,
              HasSubstr("1 strike in fragment 0 (quarantined at 2), the newest: its norm per inner step is"));
  EXPECT_EQ(ViewOf(h, "e").state, WorkerState::kTraining);
  ASSERT_TRUE(h.RunUntil([&] { return IsQuarantined(h, "e"); }));
  EXPECT_THAT(ViewOf(h, "e").last.waiting_for,
              HasSubstr("2 contributions running to fragment 0 of job small were refused or clipped"));
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); })) << h.View(kJob)->waiting_line;
}

// Six honest workers. One after another dies, leaves, loses its connection or gets a slow one. The
// coordinator dies, the job is paused, and the learning rate rises and falls.
class Unrest {
 public:
  explicit Unrest(uint64_t seed) : h_(seed), random_(seed) {
    JobSpec spec = SmallJob(kJob);
    spec.inner.learning_rate = kRates[0];  // so that learning lasts for the whole test
    spec.sync.inner_steps = 40;
    spec.workers = {.min = 1, .max = 12, .planned = 6};
    spec.stop.inner_steps = 1'000'000;
    h_.StartCoordinator();
    EXPECT_TRUE(h_.Submit(spec).ok());
    for (const char* name : kNames) h_.StartWorkerOfSpeed(name, Milliseconds(50));
  }

  void Act() {
    const std::string name = kNames[random_.Below(std::size(kNames))];
    switch (random_.Below(8)) {
      case 0:
      case 1: h_.KillWorker(name), h_.StartWorkerOfSpeed(name, Milliseconds(50)); break;
      case 2: h_.BreakStream(name); break;
      case 3: h_.LimitUploads(name, 1000 * random_.Below(8)); break;
      case 4: h_.KillCoordinator(), h_.StartCoordinator(); break;
      case 5: Pause(); break;
      case 6: ChangeRate(); break;
      default: h_.RefuseUploads(name, 1); break;
    }
    h_.RunFor(Milliseconds(500 + static_cast<int64_t>(random_.Below(3000))));
    ExpectNobodyStruck();
  }

  Harness& h() { return h_; }

 private:
  static constexpr const char* kNames[] = {"a", "b", "c", "d", "e", "f"};
  static constexpr double kRates[] = {0.0001, 0.0005, 0.0002};

  void Pause() {
    if (!h_.Control(kJob, JobAction::kPause).ok()) return;
    h_.RunFor(Milliseconds(500));
    EXPECT_TRUE(h_.Control(kJob, JobAction::kResume).ok());
  }
  void ChangeRate() {
    JobUpdated update{.job = JobId{kJob}, .spec = h_.View(kJob)->record.spec};
    update.spec.inner.learning_rate = kRates[random_.Below(std::size(kRates))];
    update.stop_step = PlannedInnerSteps(update.spec);
    EXPECT_TRUE(h_.Ask(update).ok());
  }
  void ExpectNobodyStruck() {
    for (const char* name : kNames) {
      EXPECT_EQ(ViewOf(h_, name).screened, "") << name;
      EXPECT_FALSE(IsQuarantined(h_, name)) << name;
    }
  }

  Harness h_;
  Rng random_;
};

TEST(Screens, HonestWorkersThatComeGoAndStallAreNotStruck) {
  size_t uneven = 0;
  for (const uint64_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(seed);
    Unrest unrest(seed);
    ASSERT_TRUE(unrest.h().RunUntil([&] { return Reached(unrest.h(), 9); }));
    for (int i = 0; i < 60 && !testing::Test::HasFailure(); ++i) unrest.Act();
    size_t judged = 0;
    for (const auto& [version, round] : unrest.h().CommittedRounds(kJob)) {
      judged += round.contributions.size() >= kNormsNeeded ? 1 : 0;
      for (const CommittedContribution& c : round.contributions) {
        EXPECT_EQ(c.clip_factor, 1) << version;
        uneven += c.header.steps != 40 ? 1 : 0;
      }
    }
    EXPECT_GE(judged, 9u);
  }
  EXPECT_GE(uneven, 10u) << "contributions of other than a period are what this is about";
}

// As if a sign is wrong: the right norm in the wrong direction passes the norm screen.
TEST(Screens, AWorkerThatPullsTheOtherWayIsReportedByName) {
  Harness h;
  JobSpec spec = FiveCorpora(h);
  spec.stop.inner_steps = 10 * 30;
  ASSERT_NO_FATAL_FAILURE(StartHonest(h, spec));
  h.StartHostileWorker("e", -1);
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); })) << h.View(kJob)->waiting_line;
  const auto events = ReadWholeFile(h.files(), "/state/events/small.jsonl", 1 << 30);
  ASSERT_TRUE(events.ok()) << events.status();
  size_t reports = 0;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(*events, '\n'))) {
    if (line.find(kAgainstTheOthers) == std::string::npos) continue;
    ++reports;
    EXPECT_THAT(line,
                HasSubstr("worker e: its newest 8 contributions to fragment 0 point against those of the others"));
  }
  EXPECT_EQ(reports, 1u) << *events;
  const std::string page = h.MetricsPage();
  for (const auto& [worker, against] : std::map<std::string, bool>{{"a", false}, {"e", true}}) {
    const std::string name =
        "atoll_contribution_others_cosine_ratio{fragment=\"0\",job=\"small\",worker=\"" + worker + "\"} ";
    const size_t at = page.find(name);
    ASSERT_NE(at, std::string::npos) << page;
    EXPECT_EQ(std::stod(page.substr(at + name.size())) < kAgainstCosine, against) << worker;
  }
  EXPECT_FALSE(IsQuarantined(h, "e")) << "it is a report";
}

}  // namespace
}  // namespace atl
