// SPDX-License-Identifier: Apache-2.0
// Evaluations that score the job's tasks, in whole runs.
#include <gtest/gtest.h>

#include "tests/sim/harness.h"

namespace atl {
namespace {

constexpr char kJob[] = "small";

JobSpec WithTasks(uint32_t tasks_every_rounds) {
  JobSpec spec = SmallJob(kJob);
  spec.evaluation.every_rounds = 1;
  spec.evaluation.tasks = {{"pairs", {}, 100}, {"choices", {}, 20}};
  spec.evaluation.tasks_every_rounds = tasks_every_rounds;
  return spec;
}

std::vector<EvaluationRecord> Scored(const Harness& h) {
  std::vector<EvaluationRecord> scored;
  const std::optional<JobView> view = h.View(kJob);
  for (const EvaluationRecord& e : view->evaluations) {
    if (!e.tasks.empty()) scored.push_back(e);
  }
  return scored;
}

TEST(EvaluationTasks, AreScoredEverySoOftenAndServed) {
  Harness h;
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(WithTasks(3)).ok());
  h.StartWorker("a");
  h.StartWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded) << h.View(kJob)->record.reason;
  const std::vector<EvaluationRecord> scored = Scored(h);
  ASSERT_GE(scored.size(), 3u) << "at the start, in between, at the end";
  EXPECT_LT(scored.size(), h.View(kJob)->evaluations.size()) << "most evaluations read the held-out samples only";
  EXPECT_EQ(scored.front().versions[0].value, 0u);
  EXPECT_EQ(scored.back().versions[0], h.VersionOf(kJob));
  for (const EvaluationRecord& e : scored) {
    ASSERT_EQ(e.tasks.size(), 2u);
    EXPECT_EQ(e.tasks[0].name, "pairs");
    EXPECT_EQ(e.tasks[0].examples, 100u);
    EXPECT_FALSE(e.tasks[0].correct_per_byte.has_value());
    EXPECT_EQ(e.tasks[1].correct_per_byte, e.tasks[1].correct);
  }
  EXPECT_GT(scored.back().tasks[0].correct, scored.front().tasks[0].correct) << "it learns";
  const std::vector<CurvePoint> accuracy = h.Curve(kJob, "task_accuracy/pairs");
  ASSERT_EQ(accuracy.size(), scored.size());
  EXPECT_DOUBLE_EQ(accuracy.back().value, static_cast<double>(scored.back().tasks[0].correct) / 100);
  EXPECT_EQ(h.Curve(kJob, "task_standard_error/choices").size(), scored.size());
}

// After a crash of the coordinator only the unscored pieces are scored.
TEST(EvaluationTasks, SurviveTheCoordinator) {
  Harness h;
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(WithTasks(100)).ok());
  h.StartWorker("a");
  ASSERT_TRUE(h.RunUntil([&] { return h.VersionOf(kJob).value >= 2; }));
  const std::vector<EvaluationRecord> before = Scored(h);
  ASSERT_EQ(before.size(), 1u);
  h.KillCoordinator();
  h.StartCoordinator();
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  const std::vector<EvaluationRecord> after = Scored(h);
  ASSERT_EQ(after.size(), 2u) << "the first and the last";
  EXPECT_EQ(after[0].tasks, before[0].tasks);
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded);
}

// A worker reports that it cannot evaluate: another worker gets the evaluation at once, not after
// the deadline.
TEST(EvaluationFailures, MoveAtOnce) {
  Harness h;
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(SmallJob(kJob)).ok());
  h.factory().FailEvaluations(1);
  h.StartWorker("a");
  h.StartWorker("b");
  const Instant begin = h.clock().Now();
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  EXPECT_EQ(h.View(kJob)->evaluations.size(), 2u) << "the first and the last";
  EXPECT_LT(h.clock().Now() - begin, Seconds(30)) << "a job of 60 steps of 50 ms, and nobody waited for a deadline";
}

// As in a diverged run, where losses are not finite: the evaluations are skipped, and the job ends.
TEST(EvaluationFailures, KeepNoJobFromItsEnd) {
  Harness h;
  h.StartCoordinator();
  ASSERT_TRUE(h.Submit(SmallJob(kJob)).ok());
  h.factory().FailEvaluations(1000);
  h.StartWorker("a");
  h.StartWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  const std::optional<JobView> view = h.View(kJob);
  EXPECT_EQ(view->record.state, JobState::kSucceeded) << view->record.reason;
  EXPECT_TRUE(view->evaluations.empty());
  ASSERT_FALSE(view->checkpoints.empty());
  EXPECT_TRUE(view->checkpoints.back().complete);
  EXPECT_EQ(view->checkpoints.back().versions[0], h.VersionOf(kJob));
}

// An evaluator dies between two pieces: another worker makes the whole evaluation.
TEST(EvaluationTasks, MoveToAnotherWorker) {
  Harness h;
  h.StartCoordinator();
  JobSpec spec = WithTasks(20);
  spec.stop.inner_steps = 1000;  // beyond the time after which a worker counts as lost
  ASSERT_TRUE(h.Submit(spec).ok());
  h.StartWorker("a");
  h.StartWorker("b");
  ASSERT_TRUE(h.RunUntil([&] { return h.factory().pieces_scored() == 2; }));
  const char* holder = h.session("a")->core().activity() == WorkerActivity::kEvaluating ? "a" : "b";
  h.KillWorker(holder);
  ASSERT_TRUE(h.RunUntil([&] { return h.Ended(kJob); }));
  EXPECT_EQ(h.View(kJob)->record.state, JobState::kSucceeded);
  const std::vector<EvaluationRecord> scored = Scored(h);
  ASSERT_GE(scored.size(), 2u);
  EXPECT_EQ(scored.front().tasks[0].examples, 100u);
}

}  // namespace
}  // namespace atl
