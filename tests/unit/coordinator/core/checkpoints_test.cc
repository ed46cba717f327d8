// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/checkpoints.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace atl {
namespace {

// Every state that the checkpoints of three versions reach, times every event. Every second version is kept for good.
constexpr uint64_t kVersions = 3;
const CheckpointSpec kRule = {.every_rounds = 1, .keep_last = 1, .keep_every = 2};

struct State {
  Checkpoints checkpoints;
  uint64_t version = 0;  // of the job
  bool merging = false;

  VersionVector Versions() const { return {Version{version}}; }
};

using Ledger = std::map<uint64_t, CheckpointRecord>;

std::string LineOf(const Ledger& records) {
  std::string line;
  for (const auto& [step, record] : records) {
    absl::StrAppend(&line, " ", step, ":v", record.versions[0].value, record.complete ? " complete" : " begun",
                    record.kept_for_good ? " kept" : "", record.hashes.empty() ? "" : " hashes");
  }
  return line;
}

std::string Key(const State& state) {
  return absl::StrCat(state.version, state.merging, state.checkpoints.IsDue(), LineOf(state.checkpoints.records()));
}

struct CheckpointsEvent {
  std::string name;
  std::function<std::optional<CheckpointEffects>(State&)> happen;  // none: it cannot happen now
};

CheckpointEffects Begin(State& state, uint64_t step) {
  CheckpointRecord record;
  record.step = step;
  record.versions = state.Versions();
  return state.checkpoints.Begin(record, kRule);
}

std::vector<CheckpointsEvent> EventsOfOne(uint64_t step) {
  std::vector<CheckpointsEvent> events = {
      {absl::StrCat("written ", step),
       [step](State& s) -> std::optional<CheckpointEffects> {
         if (!s.checkpoints.IsBegun(step)) return std::nullopt;
         return s.checkpoints.Written(step, {Digest{step, 1}}, 5, s.Versions(), s.merging);
       }},
      {absl::StrCat("roll back to ", step), [step](State& s) -> std::optional<CheckpointEffects> {
         const CheckpointRecord* const record = s.checkpoints.Complete(step);
         if (record == nullptr || s.merging) return std::nullopt;
         s.version = record->versions[0].value;
         return s.checkpoints.DropAfter(step);
       }}};
  if (step == kVersions) return events;  // never older than another one
  events.push_back({absl::StrCat("drop ", step), [step](State& s) -> std::optional<CheckpointEffects> {
                      if (s.checkpoints.Complete(step) == nullptr || s.checkpoints.IsNewest(step)) return std::nullopt;
                      return s.checkpoints.Drop(step);
                    }});
  return events;
}

std::vector<CheckpointsEvent> Events() {
  const auto always = [](std::function<CheckpointEffects(Checkpoints&, const State&)> happen) {
    return [=](State& s) -> std::optional<CheckpointEffects> { return happen(s.checkpoints, s); };
  };
  std::vector<CheckpointsEvent> events = {
      {"merge",
       [](State& s) -> std::optional<CheckpointEffects> {
         if (s.merging || s.checkpoints.IsDue() || s.version == kVersions) return std::nullopt;
         s.merging = true;
         return CheckpointEffects{};
       }},
      {"commit",
       [](State& s) -> std::optional<CheckpointEffects> {
         if (!s.merging) return std::nullopt;
         s.merging = false;
         s.checkpoints.Commit(kRule, Version{++s.version});
         return CheckpointEffects{};
       }},
      {"begin",
       [](State& s) -> std::optional<CheckpointEffects> {
         if (s.merging || !s.checkpoints.TakeDue()) return std::nullopt;
         return Begin(s, s.version);
       }},
      {"begin the last",
       [](State& s) -> std::optional<CheckpointEffects> {
         if (s.merging || s.checkpoints.Of(s.Versions()) != nullptr || s.checkpoints.NextStep() > kVersions + 1)
           return std::nullopt;
         return Begin(s, std::max(s.version, s.checkpoints.NextStep()));
       }},
      {"load",
       [](State& s) -> std::optional<CheckpointEffects> {
         s.merging = false;
         s.checkpoints.Load(kRule, Version{s.version});
         return s.checkpoints.DropOvertaken(s.Versions());
       }},
      {"unload", always([](Checkpoints& c, const State&) { return c.NotDue(), CheckpointEffects{}; })},
      {"loaded", always([](Checkpoints& c, const State&) { return c.Rewrite(); })},
      {"retry", always([](Checkpoints& c, const State& s) { return c.Retry(s.Versions(), s.merging); })},
      {"retain", always([](Checkpoints& c, const State&) { return c.Retain(kRule, [](uint64_t) { return false; }); })},
      {"retain 1",
       always([](Checkpoints& c, const State&) { return c.Retain(kRule, [](uint64_t s) { return s == 1; }); })},
      {"purge", always([](Checkpoints& c, const State&) { return c.DropAll(); })}};
  for (uint64_t step = 0; step <= kVersions; ++step) {
    for (CheckpointsEvent& event : EventsOfOne(step)) events.push_back(std::move(event));
  }
  return events;
}

// The ledger after the effects. Tasks must fit to it.
void Apply(const CheckpointEffects& effects, const State& after, Ledger& ledger) {
  std::vector<uint64_t> dropped;
  for (const LedgerRecord& record : effects.records) {
    if (const auto* const drop = std::get_if<CheckpointDropped>(&record)) {
      ASSERT_EQ(ledger.erase(drop->step), 1u);
      dropped.push_back(drop->step);
    } else {
      const auto& changed = std::get<CheckpointRecord>(record);
      ledger.insert_or_assign(changed.step, changed);
    }
  }
  for (const Task& task : effects.tasks) {
    if (const auto* const write = std::get_if<WriteCheckpoint>(&task)) {
      ASSERT_TRUE(after.checkpoints.IsBegun(write->step));
    } else {
      ASSERT_TRUE(!dropped.empty() && std::get<DropCheckpoint>(task).step == dropped.front())
          << "files without a record";
      dropped.erase(dropped.begin());
    }
  }
  ASSERT_TRUE(dropped.empty()) << "files stay";
}

void CheckStep(const State& before, const std::string& event, const State& after, const CheckpointEffects& effects) {
  const Ledger &was = before.checkpoints.records(), &is = after.checkpoints.records();
  Ledger ledger = was;
  ASSERT_NO_FATAL_FAILURE(Apply(effects, after, ledger));
  ASSERT_EQ(LineOf(ledger), LineOf(is)) << "a restart finds something else";
  const bool drops = event.starts_with("drop") || event.starts_with("roll back") || event == "purge";
  uint64_t newest = 0;  // complete
  for (const auto& [step, record] : was) newest = record.complete ? step : newest;
  for (const auto& [step, record] : was) {
    const bool may = drops || (event.starts_with("retain") && step < newest && !record.kept_for_good &&
                               (event == "retain" || step != 1));
    ASSERT_TRUE(is.contains(step) || !record.complete || may) << "checkpoint " << step << " is lost";
    if (is.contains(step) || record.complete || drops) continue;
    ASSERT_TRUE(before.merging || before.Versions() != record.versions) << "a begun one is abandoned";
    const auto next = was.upper_bound(step);
    ASSERT_TRUE(!record.kept_for_good || next == was.end() || !is.contains(next->first) ||
                is.at(next->first).kept_for_good);
    ASSERT_TRUE(after.checkpoints.IsDue() || event == "load") << "no later one replaces it";
  }
  if (event == "retry" || event == "load") {
    for (const auto& [step, record] : is)
      ASSERT_TRUE(record.complete || record.versions == after.Versions()) << "its versions are not in memory";
  }
  const bool is_saved = std::any_of(is.begin(), is.end(),
                                    [&](const auto& entry) { return entry.second.versions[0].value >= after.version; });
  ASSERT_FALSE(event == "load" && after.version > 0 && !is_saved && !after.checkpoints.IsDue()) << "one is owed";
}

TEST(Checkpoints, KeepTheirLawsInEveryStateAfterEveryEvent) {
  const std::vector<CheckpointsEvent> events = Events();
  std::set<std::string> seen, happened;
  std::deque<State> todo(1);
  seen.insert(Key(todo.front()));
  while (!todo.empty()) {
    const State before = std::move(todo.front());
    todo.pop_front();
    for (const CheckpointsEvent& event : events) {
      State after = before;
      const std::optional<CheckpointEffects> effects = event.happen(after);
      if (!effects) continue;
      happened.insert(event.name);
      ASSERT_NO_FATAL_FAILURE(CheckStep(before, event.name, after, *effects)) << Key(before) << " -> " << event.name;
      if (seen.insert(Key(after)).second) todo.push_back(std::move(after));
    }
  }
  EXPECT_EQ(happened.size(), events.size()) << "some event never happens";
  EXPECT_GT(seen.size(), 100u);
}

TEST(Checkpoints, EveryKeptVersionHasOneThatStays) {
  State state;
  const CheckpointSpec rule = {.every_rounds = 2, .keep_last = 1, .keep_every = 2};
  std::string kept;
  for (state.version = 1; state.version <= 10; ++state.version) {
    state.checkpoints.Commit(rule, Version{state.version});
    if (state.version == 4 || !state.checkpoints.TakeDue()) continue;  // the disk is full at version 4
    CheckpointRecord record;
    record.step = state.version;
    record.versions = state.Versions();
    state.checkpoints.Begin(record, rule);
    state.checkpoints.Written(record.step, {}, 0, record.versions, false);
    state.checkpoints.Retain(rule, [](uint64_t) { return false; });
  }
  for (const auto& [step, record] : state.checkpoints.records()) absl::StrAppend(&kept, step, " ");
  EXPECT_EQ(kept, "5 8 10 ") << "5 in place of 4";
}

}  // namespace
}  // namespace atl
