// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/evaluation.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/plan/limits.h"

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
  EXPECT_EQ(WhyImpossible(rule, {{"a", 10, 5, {}}, {"b", 20, 5, 4}}), "");
  EXPECT_EQ(WhyImpossible(rule, {{"a", 10, 0, {}}, {"b", 20, 20, 20}}), "");
  for (const std::vector<TaskScore>& scores :
       std::vector<std::vector<TaskScore>>{{},
                                           {{"a", 10, 5, {}}},
                                           {{"b", 20, 5, {}}, {"a", 10, 5, {}}},
                                           {{"a", 9, 5, {}}, {"b", 20, 5, {}}},
                                           {{"a", UINT64_MAX, 5, {}}, {"b", 20, 5, {}}},
                                           {{"a b", 10, 5, {}}, {"b", 20, 5, {}}}})
    EXPECT_EQ(WhyImpossible(rule, scores), "its answer lacks the scores of evaluation.tasks");
  EXPECT_EQ(WhyImpossible(rule, {{"a", 10, 11, {}}, {"b", 20, 5, 4}}),
            "its answer has 11 right answers of 10 examples of task a");
  EXPECT_EQ(WhyImpossible(rule, {{"a", 10, 5, {}}, {"b", 20, 5, UINT64_MAX}}),
            "its answer has 18446744073709551615 right answers of 20 examples of task b");
}

// The wire lets every number pass.
TEST(Evaluations, FiguresMustBePossible) {
  JobSpec spec;
  spec.data.sequence_length = 100;
  const auto why = [&spec](int64_t nll, uint64_t tokens, uint64_t bytes) {
    return WhyImpossible(spec, 16, EvaluationDone{{}, 0, nll, tokens, bytes});
  };
  EXPECT_EQ(why(0, 1, 0), "");
  EXPECT_EQ(why(1600 * limits::kMostLossMicro, 1600, 1600 * limits::kTextBytes), "");
  const uint64_t huge[] = {uint64_t{1} << 62, uint64_t{1} << 63, UINT64_MAX};
  for (const int64_t nll : {int64_t{-1}, INT64_MIN, INT64_MAX})
    EXPECT_EQ(why(nll, 1600, 0), absl::StrCat("its answer is ", nll, " millionths of a nat for 1600 tokens"));
  for (const uint64_t tokens : huge)
    EXPECT_EQ(why(5, tokens, 0), absl::StrCat("its answer is of ", tokens, " tokens, and it was given 1600"));
  EXPECT_EQ(why(5, 0, 0), "its answer is of 0 tokens, and it was given 1600");
  for (const uint64_t bytes : huge)
    EXPECT_EQ(why(5, 1600, bytes), absl::StrCat("its answer is of ", bytes, " bytes of text in 1600 tokens"));
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

// Every state that two evaluations reach, times every event. The workers a and b train, e only evaluates.
const WorkerId kA{"a"}, kB{"b"}, kE{"e"};

JobSpec Spec() {
  JobSpec spec;
  spec.data.sequence_length = 100;
  spec.evaluation = Rule(1, 2);
  spec.evaluation.max_tokens = 1600;
  spec.batch.sequences_per_step = 8;
  return spec;
}

struct State {
  Evaluation evaluation;
  uint64_t version = 0;  // of the job
  Instant now{1'000'000'000'000};
  std::map<WorkerId, uint64_t> given;  // the version that each worker got last

  bool IsLate() const { return !evaluation.Waits(true, now); }
};

EvaluationDone Result(const Evaluation& evaluation, int64_t nats) {
  const uint64_t number = evaluation.IsPending() ? evaluation.number() : evaluation.done().size() - 1;
  return {{}, number, nats, 1600, 0, {{"a", 10, 5, {}}, {"b", 20, 5, {}}}, ""};
}

EvaluationAnswer Hear(State& state, const WorkerId& worker, const EvaluationDone& result) {
  return state.evaluation.Hear(worker, result, Spec(), 16, {});
}

EvaluationStep Advance(State& state, const std::set<WorkerId>& ready, bool able, bool busy) {
  const JobSpec spec = Spec();
  EvaluationFacts facts{spec, {Version{state.version}}};
  facts.holder_is_able = able;
  facts.holder_is_busy = busy;
  for (const WorkerId& w : {kA, kB, kE}) facts.evaluators.push_back({w, w == kE, ready.contains(w), Seconds(1)});
  if (!ready.contains(kE)) facts.evaluators.pop_back();
  const EvaluationStep step = state.evaluation.Advance(facts, state.now);
  if (step.given) state.given[*step.given] = state.version;
  return step;
}

// The state, but for absolute times, by its view and the outcomes of events.
std::string Key(const State& state) {
  const Evaluation& e = state.evaluation;
  std::string key = absl::StrCat(state.version, e.done().size(), e.IsUntouched(), e.IsPending(), e.holder().value, "/",
                                 e.scores_tasks(), state.IsLate(), e.Wake(state.now) > state.now);
  for (const WorkerId& w : {kA, kB, kE}) {
    State copy = state;
    if (!e.done().empty() || e.IsPending())
      absl::StrAppend(&key, " ", static_cast<int>(Hear(copy, w, Result(e, 7))), copy.evaluation.IsPending());
  }
  for (const std::set<WorkerId>& ready : {std::set{kA, kB}, std::set{kA, kB, kE}, std::set{kA}}) {
    State copy = state;
    const EvaluationStep step = Advance(copy, ready, false, false);
    if (step.taken) absl::StrAppend(&key, " ", step.taken->tries, step.taken->failure);
    absl::StrAppend(&key, " ", step.given.value_or(WorkerId{"-"}).value);
  }
  State copy = state;
  if (!e.IsPending()) return key;
  copy.evaluation.Start(9);
  copy.version = 9;
  copy.now = copy.now + Seconds(1000);
  for (int i = 0; i < 5 && copy.evaluation.IsPending(); ++i) {
    if (const auto step = Advance(copy, {kA}, false, false); step.taken)
      absl::StrAppend(&key, " ", step.taken->tries, "t");
  }
  return key;
}

struct EvaluationEvent {
  std::string name;
  std::function<bool(State&)> happen;  // false: it cannot happen now
};

std::vector<EvaluationEvent> TimedEvents() {
  const auto advance = [](std::set<WorkerId> ready, bool able, bool busy) {
    return [=](State& s) { return Advance(s, ready, able, busy), true; };
  };
  return {{"advance, none ready", advance({}, true, false)},
          {"advance, trainers ready", advance({kA, kB}, true, false)},
          {"advance, all ready", advance({kA, kB, kE}, true, false)},
          {"advance, holder lost", advance({kB}, false, false)},
          {"advance, a busy alone", advance({kA}, true, true)},
          {"time passes",
           [](State& s) {
             const Instant wake = s.evaluation.Wake(s.now);
             if (wake == kNever || wake <= s.now) return false;
             s.now = wake;
             return true;
           }},
          {"stall", [](State& s) {
             s.now = s.now + Seconds(100);
             return s.evaluation.Excuse(Seconds(100), s.now), true;
           }}};
}

std::vector<EvaluationEvent> EvaluationEvents() {
  std::vector<EvaluationEvent> events = TimedEvents();
  const auto held = [](const State& s) { return !s.evaluation.holder().value.empty(); };
  const auto add = [&events](std::string name, std::function<bool(State&)> happen) {
    events.push_back({std::move(name), std::move(happen)});
  };
  add("start", [](State& s) {
    const bool may = s.evaluation.done().size() < 2;
    if (may) s.evaluation.Start(s.evaluation.done().size());
    return may;
  });
  add("restart", [](State& s) { return s.evaluation.Restart(s.evaluation.done().size()), true; });
  add("drop", [](State& s) { return s.evaluation.Drop(), true; });
  add("commit", [](State& s) { return s.version++ == 0; });
  add("roll back", [](State& s) { return s.evaluation.RollBack({Version{s.version = 0}}), true; });
  add("forgive tries", [](State& s) { return s.evaluation.ForgiveTries(), true; });
  add("release", [held](State& s) { return held(s) && (s.evaluation.Release(), true); });
  add("holder joins", [held](State& s) {
    if (!held(s)) return false;
    s.evaluation.Fail("it joins again");
    return s.evaluation.Take({Version{s.version}}, s.now), true;
  });
  for (const WorkerId& w : {kA, kB}) {
    const auto hear = [w](const std::function<void(EvaluationDone&)>& change) {
      return [=](State& s) {
        if (!s.evaluation.IsPending() && s.evaluation.done().empty()) return false;
        EvaluationDone result = Result(s.evaluation, 5);
        change(result);
        return Hear(s, w, result), true;
      };
    };
    add(w.value + "'s result", hear([](EvaluationDone&) {}));
    add(w.value + "'s other result", hear([](EvaluationDone& r) { ++r.nll_micro_nats; }));
    add(w.value + "'s failure", hear([](EvaluationDone& r) { r.failure = "no data"; }));
    add(w.value + "'s impossible result", hear([](EvaluationDone& r) { r.tokens = 1601; }));
    add(w.value + "'s impossible loss", hear([](EvaluationDone& r) { r.nll_micro_nats = -1; }));
    add(w.value + "'s result without scores", hear([](EvaluationDone& r) { r.tasks.clear(); }));
  }
  return events;
}

void CheckState(const State& state) {
  const Evaluation& e = state.evaluation;
  ASSERT_TRUE(e.IsPending() || (e.holder().value.empty() && e.Wake(state.now) == kNever && !state.IsLate()));
  ASSERT_TRUE(e.holder().value.empty() || e.Wake(state.now) < kNever) << "a holder without a deadline";
  State copy = state;
  for (int i = 0; copy.evaluation.IsPending() && copy.evaluation.holder().value.empty(); ++i) {
    ASSERT_LT(i, 2) << "no ready worker gets it";
    if (Advance(copy, {kA}, true, false).given) break;
    copy.now = copy.evaluation.Wake(copy.now);
    ASSERT_LT(copy.now, kNever) << "it waits forever";
  }
  for (int tries = 0; copy.evaluation.IsPending(); ++tries) {
    ASSERT_LT(tries, 12) << "it is never skipped";
    copy.now = copy.evaluation.Wake(copy.now);
    ASSERT_LT(copy.now, kNever);
    Advance(copy, {kA}, true, true);
  }
}

void CheckStep(const State& before, const std::string& event, const State& after) {
  const Evaluation &was = before.evaluation, &is = after.evaluation;
  const bool answers = event.find("result") != std::string::npos, rolls_back = event == "roll back";
  ASSERT_TRUE(is.done().size() == was.done().size() || rolls_back || (answers && was.IsPending()));
  if (is.done().size() > was.done().size()) {
    ASSERT_FALSE(is.IsPending()) << "an evaluation is recorded twice";
    ASSERT_EQ(is.done().size(), was.done().size() + 1);
    ASSERT_EQ(is.done().back().evaluation, was.number());
    const WorkerId by{event.substr(0, 1)};
    ASSERT_EQ(is.done().back().versions[0].value, before.given.at(by)) << "a result for other versions";
    ASSERT_EQ(is.done().back().tasks.empty(), !was.scores_tasks());
    ASSERT_TRUE(event.ends_with("result") || (event.ends_with("scores") && !was.scores_tasks()));
    ASSERT_EQ(event.find("impossible"), std::string::npos);
  } else if (was.IsPending() && !is.IsPending()) {
    const bool skips = event.starts_with("advance") || event == "holder joins";
    ASSERT_TRUE(event == "drop" || rolls_back || (skips && !is.IsUntouched())) << "a pending evaluation is lost";
  }
  ASSERT_FALSE(rolls_back && !is.done().empty() && is.done().back().versions[0].value > 0) << "an undone one stays";
  const bool changes = event.starts_with("advance") || event == "release" || event == "holder joins";
  const bool same = is.holder() == was.holder() || is.holder().value.empty();
  ASSERT_TRUE(same || changes) << "only Advance gives an evaluation";
  const bool failed = before.IsLate() && !was.holder().value.empty() && was.Wake(before.now) > before.now;
  ASSERT_FALSE(failed && event.starts_with("advance") && is.holder() == was.holder()) << "no pause before a retry";
  const bool by_other = event.find("'s") == 1 && was.holder().value != event.substr(0, 1);
  ASSERT_FALSE(by_other && is.IsPending() && before.IsLate() != after.IsLate()) << "another worker's failure counts";
  ASSERT_FALSE(event == "stall" && before.IsLate() != after.IsLate()) << "a stall counts as the worker's time";
}

TEST(Evaluation, KeepsItsLawsInEveryStateAfterEveryEvent) {
  const std::vector<EvaluationEvent> events = EvaluationEvents();
  std::set<std::string> seen, happened;
  std::deque<State> todo(1);
  seen.insert(Key(todo.front()));
  while (!todo.empty()) {
    const State before = std::move(todo.front());
    todo.pop_front();
    ASSERT_NO_FATAL_FAILURE(CheckState(before)) << Key(before);
    for (const EvaluationEvent& event : events) {
      State after = before;
      if (!event.happen(after)) continue;
      happened.insert(event.name);
      ASSERT_NO_FATAL_FAILURE(CheckStep(before, event.name, after)) << Key(before) << " -> " << event.name;
      if (seen.insert(Key(after)).second) todo.push_back(std::move(after));
    }
  }
  EXPECT_EQ(happened.size(), events.size());
  EXPECT_GT(seen.size(), 500u);
  RecordProperty("states", std::to_string(seen.size()));
}

}  // namespace
}  // namespace atl
