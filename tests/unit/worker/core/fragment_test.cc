// SPDX-License-Identifier: Apache-2.0
// Every state that a fragment reaches, times every event.
#include "worker/core/fragment.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace atl::worker {
namespace {

constexpr Instant kNow{1'000'000'000'000}, kLater{1'005'000'000'000};
constexpr uint64_t kMostVersions = 3, kMostSteps = 1;

const char* StateOf(const Fragment& f) {
  if (f.absent()) return "absent";
  if (f.leaping()) return "leaping";
  if (f.forming()) return "forming";
  if (f.applying() != nullptr) return f.applying()->overtaken ? "applying, overtaken" : "applying";
  if (f.unsettled() != nullptr) return "unsettled";
  return f.held() ? "held" : "resting";
}

std::string Key(const Fragment& f) {
  std::string key = absl::StrCat(StateOf(f), " ", f.installing(), f.fetched_again_at() != kNever, " ", f.outer().value,
                                 "/", f.newest().value, " ", f.drift().steps, f.missed());
  absl::StrAppend(&key, " ", f.lacks_update(), f.due(), f.send_now(), f.tried_retry(),
                  f.tried() ? absl::StrCat("t", f.tried()->value) : "");
  for (const Pending& pending : f.pending()) absl::StrAppend(&key, " p", pending.fetched, pending.fetching);
  if (f.applying() != nullptr) absl::StrAppend(&key, " c", f.applying()->standing != Standing::kNotContributor);
  if (f.unsettled() != nullptr) absl::StrAppend(&key, " c", f.unsettled()->standing != Standing::kNotContributor);
  if (const auto& held = f.held())
    absl::StrAppend(&key, " h", held->uploading, held->accepted, held->committed, held->dropped, held->retry,
                    held->ahead, held->header.steps, held->header.digest.IsZero());
  return key;
}

struct FragmentEvent {
  std::string name;
  std::function<bool(Fragment&)> happen;  // false: it cannot happen now, or is ignored
};

bool MaySend(const Fragment& f) { return f.resting() && !f.held() && !f.IsOutdated() && f.drift().steps > 0; }

bool Offered(const Fragment& f) { return f.held() && !f.forming() && !f.HasUpdate() && !f.held()->dropped; }

Held NewOf(const Fragment& f) {
  Held held;
  held.version = f.outer();
  held.header.steps = f.drift().steps;
  held.header.tokens = f.drift().tokens;
  held.retry = f.send_now() && !f.due();
  return held;
}

std::vector<FragmentEvent> VersionEvents() {
  return {
      {"a version is committed",
       [](Fragment& f) {
         if (f.newest().value >= kMostVersions) return false;
         if (f.Hear({.reached = Version{f.newest().value + 1}, .hash = {1, 1}, .contributor = true})) f.FillGaps();
         f.StartFetches();
         return true;
       }},
      {"an update is fetched",
       [](Fragment& f) {
         const Version next{f.outer().value + 1};
         const bool wanted = f.Fetches(next);
         f.UpdateFetched(next);
         return wanted;
       }},
      {"it lacks an update",
       [](Fragment& f) {
         if (f.absent() || f.lacks_update() || !f.Fetches(Version{f.outer().value + 1})) return false;
         f.LackUpdate();
         if (f.MayLeap()) return f.BeginLeap(), true;
         f.Withdraw();
         return f.Lose(kLater), true;
       }},
      {"its update begins",
       [](Fragment& f) {
         if (!f.resting() || f.pending().empty() || !f.pending().front().fetched) return false;
         return f.BeginApply(f.StandingIn(f.pending().front()), false), true;
       }},
      {"its update is applied",
       [](Fragment& f) {
         return f.applying() != nullptr && f.Applied(Version{f.outer().value + 1}) && (f.StartFetches(), true);
       }},
      {"it settles", [](Fragment& f) { return f.unsettled() != nullptr && (f.Settle(), true); }},
      {"it deviates", [](Fragment& f) { return f.applying() != nullptr && (f.Withdraw(), f.Lose(kLater), true); }},
      {"it leaps", [](Fragment& f) { return f.MayLeap() && f.IsOutdated() && (f.BeginLeap(), true); }},
      {"the whole is fetched", [](Fragment& f) { return f.WholeFetched(); }},
      {"the whole is not fetched",
       [](Fragment& f) {
         if (!f.WholeNotFetched(kLater)) return false;
         if (f.resting()) f.FillGaps();
         return true;
       }},
      {"it is fetched again", [](Fragment& f) { return f.fetched_again_at() != kNever && (f.FetchAgain(), true); }},
      {"it is installed",
       [](Fragment& f) {
         if (!f.Installed(std::max(f.outer(), f.newest()))) return false;
         return f.FillGaps(), f.StartFetches(), true;
       }},
      {"it is installed damaged",
       [](Fragment& f) { return f.InstalledDamaged(kLater) && (!f.leaping() || (f.Lose(kLater), true)); }},
  };
}

std::vector<FragmentEvent> ContributionEvents() {
  return {
      {"a step is trained",
       [](Fragment& f) { return !f.absent() && f.drift().steps < kMostSteps && (f.Train(10, 5), true); }},
      {"a send step passes", [](Fragment& f) { return f.SendStepPassed(), true; }},
      {"nothing is sent", [](Fragment& f) { return f.SendNothing(), true; }},
      {"a contribution is begun", [](Fragment& f) { return MaySend(f) && (f.BeginForm(NewOf(f)), true); }},
      {"it is formed",
       [](Fragment& f) {
         return f.Formed({2, f.outer().value}, 8, {});
       }},
      {"a sync is dropped",
       [](Fragment& f) {
         if (!MaySend(f)) return false;
         Held place;
         place.version = f.outer();
         place.dropped = true;
         place.Accept(kNow);
         return f.DropSync(std::move(place)), true;
       }},
      {"an upload begins",
       [](Fragment& f) {
         return Offered(f) && !f.held()->uploading && !f.held()->accepted && (f.StartUpload(), true);
       }},
      {"it is accepted", [](Fragment& f) { return f.StopUpload() && (f.Accept(kNow), true); }},
      {"the stream ends", [](Fragment& f) { return f.StopUpload(); }},
      {"its acceptance is lost",
       [](Fragment& f) { return Offered(f) && f.held()->accepted && (f.LoseAcceptance(), true); }},
      {"it was committed", [](Fragment& f) { return Offered(f) && !f.held()->committed && (f.Commit(kNow), true); }},
      {"it is refused", [](Fragment& f) { return Offered(f) && (f.Refuse(kLater), f.Withdraw(), true); }},
      {"it is withdrawn", [](Fragment& f) { return f.held() && !f.HasUpdate() && (f.Withdraw(), true); }},
      {"the outer copy is taken", [](Fragment& f) { return f.Withdraw(), f.TakeOuter(), true; }},
      {"the clock goes back", [](Fragment& f) { return f.SetClockBack(1), true; }},
  };
}

// The transitions between states, by state and event. What is not listed changes no state.
constexpr char kTransitions[] = R"(
absent
  it is installed -> resting
applying
  it deviates -> absent
  its update is applied -> unsettled
  the outer copy is taken -> applying, overtaken
applying, overtaken
  it deviates -> absent
  its update is applied -> resting
forming
  it is formed -> held
  it is withdrawn -> resting
  it lacks an update -> absent
  the outer copy is taken -> resting
held
  it is refused -> resting
  it is withdrawn -> resting
  it lacks an update -> absent
  its update begins -> applying
  the outer copy is taken -> resting
leaping
  it is installed -> unsettled
  it is installed damaged -> absent
  the whole is not fetched -> resting
resting
  a contribution is begun -> forming
  a sync is dropped -> held
  it lacks an update -> leaping
  it leaps -> leaping
  its update begins -> applying
unsettled
  it lacks an update -> absent
  it settles -> resting
  the outer copy is taken -> resting
)";

std::string Listed(const std::map<std::string, std::map<std::string, std::set<std::string>>>& transitions) {
  std::string out = "\n";
  for (const auto& [state, events] : transitions) {
    absl::StrAppend(&out, state, "\n");
    for (const auto& [event, next] : events)
      absl::StrAppend(&out, "  ", event, " -> ", absl::StrJoin(next, " | "), "\n");
  }
  return out;
}

void CheckStep(const Fragment& before, const Fragment& after) {
  after.CheckInvariants();
  if (before.forming())
    ASSERT_EQ(after.absent() || after.outer() == before.outer(), true) << "the outer copy has changed";
  ASSERT_GE(after.outer(), before.outer());
  ASSERT_GE(after.newest(), before.newest());
  if (after.absent()) ASSERT_EQ(after.drift().steps, 0u);
}

TEST(Fragment, KeepsItsLawsInEveryStateAfterEveryEvent) {
  std::vector<FragmentEvent> events = VersionEvents();
  for (FragmentEvent& event : ContributionEvents()) events.push_back(std::move(event));
  std::map<std::string, std::map<std::string, std::set<std::string>>> transitions;
  std::map<std::string, std::set<std::string>> reached_from;  // by key
  std::set<std::string> seen, happened, rests;
  std::deque<Fragment> todo = {Fragment::Fetching(Version{1})};
  todo.front().Expect(Version{1});
  seen.insert(Key(todo.front()));
  while (!todo.empty()) {
    const Fragment before = std::move(todo.front());
    todo.pop_front();
    if (before.resting() && before.newest() == before.outer()) rests.insert(Key(before));
    for (const FragmentEvent& event : events) {
      Fragment after = before;
      if (!event.happen(after)) {
        ASSERT_EQ(Key(after), Key(before)) << event.name << " is ignored";
        continue;
      }
      happened.insert(event.name);
      ASSERT_NO_FATAL_FAILURE(CheckStep(before, after)) << Key(before) << " -> " << event.name;
      reached_from[Key(after)].insert(Key(before));
      if (std::string(StateOf(before)) != StateOf(after))
        transitions[StateOf(before)][event.name].insert(StateOf(after));
      if (seen.insert(Key(after)).second) todo.push_back(std::move(after));
    }
  }
  EXPECT_EQ(happened.size(), events.size()) << "some event never happens";
  EXPECT_GT(seen.size(), 1000u);
  EXPECT_EQ(Listed(transitions), kTransitions);
  // From every state it can rest at the newest version.
  std::deque<std::string> back(rests.begin(), rests.end());
  while (!back.empty()) {
    for (const std::string& key : reached_from[back.front()]) {
      if (rests.insert(key).second) back.push_back(key);
    }
    back.pop_front();
  }
  EXPECT_EQ(rests.size(), seen.size()) << "it is stuck";
}

}  // namespace
}  // namespace atl::worker
