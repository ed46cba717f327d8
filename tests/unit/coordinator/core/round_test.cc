// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/round.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>

#include "absl/strings/str_cat.h"
#include "coordinator/core/explain.h"
#include "coordinator/core/lateness.h"

namespace atl {
namespace {

constexpr Instant kStart{1'000'000'000'000};

ContributionHeader Header(const std::string& worker, const Digest& digest, Version version) {
  ContributionHeader header;
  header.worker = WorkerId{worker};
  header.digest = digest;
  header.target.version = version;
  return header;
}

Round Gathering(const std::vector<std::string>& expected,
                const std::vector<std::pair<std::string, int64_t>>& accepted_at_ms) {
  std::set<WorkerId> workers;
  for (const auto& name : expected) workers.insert(WorkerId{name});
  Round round;
  round.Open(std::move(workers), false, kStart, kStart + Seconds(20));
  for (const auto& [name, ms] : accepted_at_ms)
    round.RestoreAccepted(Header(name, {}, Version{}), kStart + Milliseconds(ms));
  return round;
}

RoundRule Rule(uint32_t minimum, uint32_t quorum) {
  return {.minimum = minimum, .quorum = quorum, .grace = Milliseconds(250)};
}

std::string Reason(const Round& round, const RoundRule& rule, Instant now) {
  return ReasonOf(round, rule, round.Decide(rule, now), now);
}

TEST(RoundDecides, ClosesWhenAllExpectedHaveContributed) {
  const Round round = Gathering({"a", "b"}, {{"a", 1}, {"b", 2}});
  EXPECT_TRUE(round.Decide(Rule(1, 0), kStart + Milliseconds(2)).close);
  EXPECT_EQ(Reason(round, Rule(1, 0), kStart + Milliseconds(2)), "all 2 expected contributions are there");
}

TEST(RoundDecides, GraceRunsFromTheQuorum) {
  const Round round = Gathering({"a", "b", "c"}, {{"a", 100}, {"b", 400}});
  const auto early = round.Decide(Rule(1, 0), kStart + Milliseconds(649));
  EXPECT_FALSE(early.close);
  EXPECT_EQ(early.wake, kStart + Milliseconds(650));
  const auto late = round.Decide(Rule(1, 0), kStart + Milliseconds(650));
  EXPECT_TRUE(late.close);
  EXPECT_EQ(Reason(round, Rule(1, 0), kStart + Milliseconds(650)),
            "quorum 2 of 2 and the grace window has passed; without c");
}

TEST(RoundDecides, NeverBelowTheMinimumEvenWithoutExpected) {
  const auto v = Gathering({"a"}, {{"a", 1}}).Decide(Rule(2, 0), kStart + Seconds(19));
  EXPECT_FALSE(v.close);
  EXPECT_FALSE(v.overdue);
  EXPECT_TRUE(Gathering({"a"}, {{"a", 1}}).Decide(Rule(2, 0), kStart + Seconds(20)).overdue);
}

TEST(RoundDecides, AnEmptyRoundNeverCloses) {
  EXPECT_FALSE(Gathering({}, {}).Decide(Rule(0, 0), kStart + Seconds(90)).close);
  RoundRule rule = Rule(3, 0);
  rule.finished = 7;
  EXPECT_FALSE(Gathering({}, {}).Decide(rule, kStart + Seconds(90)).close);
}

TEST(RoundDecides, FinishedWorkersCountForTheMinimum) {
  RoundRule rule = Rule(2, 0);
  rule.finished = 1;
  EXPECT_TRUE(Gathering({"a"}, {{"a", 1}}).Decide(rule, kStart + Milliseconds(1)).close);
}

TEST(RoundDecides, WaitsForWhatIsBeingFlushed) {
  Round round = Gathering({"a"}, {{"a", 1}});
  round.Offer(1, Header("x", {}, Version{}));
  round.Finish(WorkerId{"x"});
  const auto v = round.Decide(Rule(1, 0), kStart + Seconds(1));
  EXPECT_FALSE(v.close);
  EXPECT_EQ(v.wake, kNever);
  EXPECT_EQ(Reason(round, Rule(1, 0), kStart + Seconds(1)), "waits for a contribution that is being written");
  round.Offer(2, Header("y", {}, Version{}));
  round.Finish(WorkerId{"y"});
  EXPECT_EQ(Reason(round, Rule(1, 0), kStart + Seconds(1)), "waits for 2 contributions that are being written");
}

TEST(RoundDecides, AContributionOfSomebodyUnexpectedCounts) {
  EXPECT_TRUE(Gathering({"a"}, {{"a", 1}, {"x", 2}}).Decide(Rule(2, 0), kStart + Milliseconds(2)).close);
}

TEST(RoundDecides, IsQuietWhileItIsMerged) {
  Round round = Gathering({"a"}, {{"a", 1}});
  round.Close();
  const auto v = round.Decide(Rule(1, 0), kStart + Seconds(90));
  EXPECT_FALSE(v.close || v.overdue);
  EXPECT_EQ(v.wake, kNever);
}

// Every state that a round and the next one reach, times every event: a does everything, b contributes, c drops its
// syncs.
const WorkerId kA{"a"}, kB{"b"}, kC{"c"};

ContributionHeader Of(const Round& round, const WorkerId& worker) {
  return Header(worker.value, {round.version().value + 1, worker == kA ? 1u : 2u}, round.version());
}

std::string Key(const Round& round) {
  std::string key = absl::StrCat(round.version().value, round.closing(), round.past_finished());
  for (const WorkerId& w : {kA, kB, kC}) {
    const auto upload = round.uploads().find(w);
    const bool sends = upload != round.uploads().end();
    absl::StrAppend(&key, " ", round.expected().contains(w), round.accepted().contains(w), round.dropped().contains(w),
                    sends ? 1 + upload->second.flushing : 0, round.HasRefused(w, Of(round, w).digest),
                    round.IsMerged(w), round.TailOf(w));
  }
  return key;
}

struct RoundEvent {
  std::string name;
  std::function<bool(Round&)> happen;  // false: it cannot happen now
};

std::vector<RoundEvent> RoundEvents() {
  std::vector<RoundEvent> events = {
      {"open",
       [](Round& r) {
         if (r.closing()) return false;
         r.Open({kA, kB, kC}, false, kStart, kStart + Seconds(20));
         return true;
       }},
      {"close",
       [](Round& r) {
         const bool close = r.Decide(Rule(1, 0), kStart + Seconds(1)).close;
         if (close) r.Close();
         return close;
       }},
      {"commit",
       [](Round& r) {
         if (!r.closing() || r.Arrived() == 0 || r.version().value > 0) return false;
         r.Commit(Version{r.version().value + 1}, {});
         r.Open({kA, kB}, true, kStart, kStart + Seconds(20));
         return true;
       }},
      {"reopen", [](Round& r) { return r.Reopen(), true; }},
      {"end", [](Round& r) { return r.End(), true; }},
      {"c drops its sync", [](Round& r) { return r.DropSync(r.version(), kC, 7, kStart); }}};
  for (const WorkerId& w : {kA, kB, kC})
    events.push_back({w.value + " leaves", [w](Round& r) { return r.Leave(w), true; }});
  events.push_back({"a joins", [](Round& r) { return r.ExpectJoiner(kA), true; }});
  for (const UploadId id : {UploadId{1}, UploadId{2}}) {
    const WorkerId w = id == 1 ? kA : kB;
    const auto open = [id](const Round& r, bool flushing) {
      return r.Sent(id) != nullptr && r.Sent(id)->flushing == flushing;
    };
    events.push_back({w.value + " offers", [id, w](Round& r) {
                        if (r.IsUploading(w) || r.Judge(Of(r, w))) return false;
                        return r.Offer(id, Of(r, w)), true;
                      }});
    events.push_back({w.value + " has sent", [w, open](Round& r) { return open(r, false) && (r.Finish(w), true); }});
    events.push_back({w.value + " is durable", [id](Round& r) { return r.Durable(id, kStart); }});
    if (w == kB) continue;
    events.push_back({w.value + " breaks", [id](Round& r) { return r.Break(id), true; }});
    events.push_back({w.value + " drops its uploads", [w](Round& r) { return r.DropUploads(&w), true; }});
    events.push_back({w.value + " is refused", [w](Round& r) { return r.closing() && r.Refuse(w); }});
    events.push_back({w.value + " has finished", [w](Round& r) { return r.PassFinished(w), true; }});
  }
  return events;
}

void CheckState(const Round& round) {
  for (const RoundRule& rule : {Rule(1, 0), Rule(2, 0), Rule(1, 3)}) {
    const RoundVerdict now = round.Decide(rule, kStart + Seconds(1)), later = round.Decide(rule, kStart + Seconds(20));
    ASSERT_FALSE(round.closing() && (now.close || later.close || later.overdue));
    ASSERT_FALSE(now.close && (round.Flushing() > 0 || round.Arrived() < rule.minimum || round.Arrived() == 0));
    const bool majority = round.Arrived() >= round.Quorum(rule) && !round.accepted().empty();
    ASSERT_FALSE(now.close && !round.Missing().empty() && !majority) << "closed without a quorum";
    ASSERT_TRUE(round.closing() || round.Flushing() > 0 || later.close || later.overdue) << "it waits for ever";
  }
  for (const WorkerId& w : {kA, kB}) {
    ASSERT_FALSE(round.accepted().contains(w) && round.IsUploading(w)) << "it sends what is accepted";
    const auto judged = round.Judge(Of(round, w));
    const bool accepted = round.accepted().contains(w);
    ASSERT_EQ(judged && judged->decision == UploadDecision::kAccepted, accepted);
    ASSERT_EQ(judged && IsLate(judged->status), round.closing() && !accepted);
    if (round.version().value == 0) continue;
    ContributionHeader last = Header(w.value, {round.version().value, w == kA ? 1u : 2u}, {});
    last.target.version.value = round.version().value - 1;
    ASSERT_EQ(round.Judge(last)->decision == UploadDecision::kAccepted, round.IsMerged(w));
  }
  ASSERT_FALSE(round.dropped().contains(kC) && round.accepted().contains(kC));
}

void CheckStep(const Round& before, const std::string& event, const Round& after) {
  for (const WorkerId& w : {kA, kB}) {
    const bool was = before.accepted().contains(w), is = after.accepted().contains(w);
    ASSERT_FALSE(was && !is && event != "commit" && event != "end" && event != w.value + " is refused");
    ASSERT_FALSE(!was && is && (before.closing() || event != w.value + " is durable"));
    ASSERT_TRUE(!was || event != "commit" || after.IsMerged(w)) << "an accepted contribution is not merged";
    const bool flushing = before.IsUploading(w) && before.uploads().at(w).flushing;
    ASSERT_FALSE(flushing && !after.IsUploading(w) && !is && event != "end") << "a flushed upload is lost";
  }
}

TEST(Round, KeepsItsLawsInEveryStateAfterEveryEvent) {
  const std::vector<RoundEvent> events = RoundEvents();
  std::set<std::string> seen;
  std::set<std::string> happened;
  std::deque<Round> todo = {Gathering({"a", "b"}, {})};
  seen.insert(Key(todo.front()));
  while (!todo.empty()) {
    const Round before = std::move(todo.front());
    todo.pop_front();
    ASSERT_NO_FATAL_FAILURE(CheckState(before)) << Key(before);
    for (const RoundEvent& event : events) {
      Round after = before;
      if (!event.happen(after)) continue;
      happened.insert(event.name);
      ASSERT_NO_FATAL_FAILURE(CheckStep(before, event.name, after)) << Key(before) << " -> " << event.name;
      if (seen.insert(Key(after)).second) todo.push_back(std::move(after));
    }
  }
  EXPECT_EQ(happened.size(), events.size()) << "some event never happens";
  EXPECT_GT(seen.size(), 1000u);
}

TEST(Round, ANewerUploadSupersedesAndNamesWhatAScreenRefused) {
  Round round = Gathering({"a"}, {{"a", 1}});
  round.Close();
  EXPECT_EQ(round.Refuse(kA), Digest{});
  EXPECT_EQ(round.Refuse(kA), std::nullopt);
  round.Reopen();
  EXPECT_EQ(round.Offer(1, Header("a", {5, 5}, Version{})).superseded, std::nullopt);
  EXPECT_EQ(round.Offer(2, Header("a", {5, 6}, Version{})).superseded, UploadId{1});
}

// A round's memory of newest contributions does not grow with the number of names ever used.
TEST(Round, ForgetsUnknownWorkersButNotItsNewestRound) {
  Round round(Version{5}, {});
  round.RestoreCommitted(Header("newest", {}, Version{4}));
  round.RestoreCommitted(Header("gone", {}, Version{3}));
  round.RestoreCommitted(Header("known", {}, Version{1}));
  const auto known = [](const WorkerId& worker) { return worker == WorkerId{"known"}; };
  round.ForgetOlder(known);
  EXPECT_EQ(round.committed().size(), 2u);
  EXPECT_FALSE(round.committed().contains(WorkerId{"gone"}));
  round.Commit(Version{6}, {});
  round.ForgetOlder(known);
  EXPECT_EQ(round.committed().size(), 1u) << "a newer round is committed";
}

TEST(Round, ARollbackForgetsTheEpoch) {
  Round round = Gathering({"a"}, {{"a", 1}});
  round.Close();
  round.Commit(Version{1}, {1, 1});
  EXPECT_TRUE(round.IsMerged(kA));
  round.RollBack(Version{0}, {2, 2});
  EXPECT_TRUE(round.committed().empty());
  EXPECT_EQ(round.hash(), (Digest{2, 2}));
}

}  // namespace
}  // namespace atl
