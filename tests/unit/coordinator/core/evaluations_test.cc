// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/evaluations.h"

#include <gtest/gtest.h>

namespace atl {
namespace {

EvaluationSpec Rule(uint32_t every, uint32_t tasks_every) {
  return {.every_rounds = every, .tasks = {{"a", {}, 10}, {"b", {}, 20}}, .tasks_every_rounds = tasks_every};
}

EvaluationRecord At(uint64_t version, bool scored) {
  EvaluationRecord record;
  record.versions = {Version{version}};
  if (scored) record.tasks = {{"a", 10, 5, {}}, {"b", 20, 5, {}}};
  return record;
}

TEST(Evaluations, AreDueByEitherRule) {
  const EvaluationSpec rule = Rule(4, 6);
  std::string due;
  for (uint64_t v = 1; v <= 12; ++v) due += EvaluationIsDue(rule, Version{v}) ? std::to_string(v) + " " : "";
  EXPECT_EQ(due, "4 6 8 12 ");
  EXPECT_FALSE(EvaluationIsDue(Rule(0, 0), Version{12}));
  EvaluationSpec without = Rule(0, 6);
  without.tasks.clear();
  EXPECT_FALSE(EvaluationIsDue(without, Version{6}));
}

TEST(Evaluations, AreOwedUntilOneOfThatVersionOrALaterIsThere) {
  const EvaluationSpec rule = Rule(4, 6);
  EXPECT_FALSE(EvaluationIsOwed(rule, {}, Version{0}));
  EXPECT_FALSE(EvaluationIsOwed(rule, {At(0, true)}, Version{3})) << "none was due yet";
  EXPECT_TRUE(EvaluationIsOwed(rule, {At(0, true)}, Version{4}));
  EXPECT_TRUE(EvaluationIsOwed(rule, {At(0, true)}, Version{5}));
  EXPECT_FALSE(EvaluationIsOwed(rule, {At(0, true), At(4, false)}, Version{5}));
  EXPECT_TRUE(EvaluationIsOwed(rule, {At(0, true), At(4, false)}, Version{6})) << "by the rule of the tasks";
  EXPECT_FALSE(EvaluationIsOwed(rule, {At(4, false), At(7, true)}, Version{7})) << "a later one makes up for it";
  EXPECT_FALSE(EvaluationIsOwed(Rule(0, 0), {}, Version{12}));
  EvaluationSpec without = Rule(0, 6);
  without.tasks.clear();
  EXPECT_FALSE(EvaluationIsOwed(without, {}, Version{6}));
}

TEST(Evaluations, TasksAreScoredFirstLastAndInEachSpan) {
  const EvaluationSpec rule = Rule(2, 6);
  EXPECT_TRUE(TasksAreDue(rule, {}, Version{0}, false)) << "the first";
  EXPECT_FALSE(TasksAreDue(rule, {At(0, true)}, Version{4}, false));
  EXPECT_TRUE(TasksAreDue(rule, {At(0, true), At(4, false)}, Version{6}, false));
  // The evaluation of version 6 was skipped because another one was running; the next one makes up
  // for it.
  EXPECT_TRUE(TasksAreDue(rule, {At(0, true), At(4, false)}, Version{8}, false));
  EXPECT_FALSE(TasksAreDue(rule, {At(0, true), At(8, true)}, Version{10}, false));
  EXPECT_TRUE(TasksAreDue(rule, {At(0, true), At(8, true)}, Version{10}, true)) << "the last";
  EXPECT_FALSE(TasksAreDue(Rule(2, 0), {At(0, true)}, Version{400}, false));
  EvaluationSpec without = rule;
  without.tasks.clear();
  EXPECT_FALSE(TasksAreDue(without, {}, Version{0}, true));
}

TEST(Evaluations, ScoresMustBeThoseOfTheTasks) {
  const EvaluationSpec rule = Rule(0, 0);
  EXPECT_TRUE(FitTheTasks(rule, {{"a", 10, 5, {}}, {"b", 20, 5, 4}}));
  EXPECT_FALSE(FitTheTasks(rule, {}));
  EXPECT_FALSE(FitTheTasks(rule, {{"a", 10, 5, {}}}));
  EXPECT_FALSE(FitTheTasks(rule, {{"b", 20, 5, {}}, {"a", 10, 5, {}}}));
  EXPECT_FALSE(FitTheTasks(rule, {{"a", 9, 5, {}}, {"b", 20, 5, {}}}));
}

TEST(Evaluations, TheAllowanceGrowsWithTheWork) {
  JobSpec spec;
  spec.data.sequence_length = 100;
  spec.evaluation = Rule(0, 0);
  spec.evaluation.max_tokens = 1600;
  spec.batch.sequences_per_step = 8;
  EXPECT_EQ(EvaluationSamples(spec), 16u);
  spec.model = {.vocab_size = 50'000, .hidden_size = 500, .intermediate_size = 2'000, .layers = 10};
  // 65 million parameters at 6 operations each and 4 x 10^10 a second: 9.75 ms a token, as no step
  // was measured.
  const uint64_t step_tokens = uint64_t{spec.batch.sequences_per_step} * spec.data.sequence_length;
  EXPECT_EQ(EvaluationAllowance(spec, false, Duration{}),
            Seconds(60) + Milliseconds(39) / 4 * static_cast<int64_t>(step_tokens) * 3 * 2);
  spec.model.layers = 1'000'000;
  EXPECT_EQ(EvaluationAllowance(spec, false, Duration{}), Seconds(60 + 3 * 2 * 3600)) << "an hour a step is the most";
  EXPECT_EQ(EvaluationAllowance(spec, false, Seconds(2)), Seconds(60 + 3 * 2 * 2));
  // 30 examples, each 250 ms and four texts of an eighth of a step.
  EXPECT_EQ(EvaluationAllowance(spec, true, Seconds(2)), Seconds(60 + 3 * 2 * 2) + Milliseconds(30 * 1250));
  spec.evaluation.tasks[0].examples = 200'000;
  EXPECT_LE(EvaluationAllowance(spec, true, Seconds(3600)), Seconds(2 * 86'400 + 60)) << "nothing runs over";
}

TEST(Evaluations, AnExtensionDoublesUpToAnHour) {
  EXPECT_EQ(EvaluationExtension(Seconds(60), 1), Seconds(120));
  EXPECT_EQ(EvaluationExtension(Seconds(60), 4), Seconds(960));
  EXPECT_EQ(EvaluationExtension(Seconds(1000), 4), Seconds(3600));
  EXPECT_EQ(EvaluationExtension(Seconds(7200), 4), Seconds(7200)) << "never less than it was";
  EXPECT_EQ(EvaluationExtension(Seconds(60), 1'000'000), Seconds(3600)) << "nothing runs over";
}

}  // namespace
}  // namespace atl
