// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/member.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace atl {
namespace {

const JobId kJob{"job"};
constexpr Instant kNow{1'000'000'000'000};

struct Event {
  std::string name;
  std::function<bool(Member&)> happen;  // false: it cannot happen now
};

// Every state that the events reach, times every event.
size_t Explore(const std::vector<Event>& events, const std::function<std::string(const Member&)>& key,
               const std::function<void(const Member&, const std::string&, const Member&)>& check) {
  std::set<std::string> seen, happened;
  Member first(WorkerRecord{.worker = WorkerId{"a"}});
  first.Recover(kNow);
  std::deque<Member> todo = {first};
  seen.insert(key(first));
  while (!todo.empty() && !testing::Test::HasFatalFailure()) {
    const Member before = std::move(todo.front());
    todo.pop_front();
    for (const Event& event : events) {
      Member after = before;
      if (!event.happen(after)) continue;
      happened.insert(event.name);
      check(before, event.name, after);
      if (testing::Test::HasFatalFailure()) ADD_FAILURE() << key(before) << " -> " << event.name;
      if (seen.insert(key(after)).second) todo.push_back(std::move(after));
    }
  }
  EXPECT_EQ(happened.size(), events.size()) << "some event never happens";
  return seen.size();
}

Event Always(std::string name, std::function<void(Member&)> happen) {
  return {std::move(name), [happen = std::move(happen)](Member& m) { return happen(m), true; }};
}

void LeaveJob(Member& m) {
  m.SetJob({});
  m.LeaveJob();
}

void Lose(Member& m) {
  m.Disconnect();
  m.Lose(kNow);
}

bool Connect(Member& m, uint64_t nonce, bool same_process) {
  if (!m.record().quarantine.empty() || (nonce == m.record().start_nonce) != same_process) return false;
  m.BeginStream(nonce);
  if (!same_process) {
    Hello hello;
    hello.start_nonce = nonce;
    LeaveJob(m);
    m.Join(hello, Incarnation{nonce});
  }
  m.Connect(1);
  return m.Return(kNow), true;
}

std::vector<Event> PresenceEvents() {
  std::vector<Event> events = {Always("excuse", [](Member& m) { m.Excuse(Seconds(5), kNow); }),
                               Always("disconnect", [](Member& m) { m.Disconnect(); }),
                               Always("lose", Lose),
                               Always("leave",
                                      [](Member& m) {
                                        LeaveJob(m);
                                        m.Disconnect();
                                        m.Leave(kNow);
                                      }),
                               Always("quarantine",
                                      [](Member& m) {
                                        m.Quarantine("bad");
                                        LeaveJob(m);
                                        Lose(m);
                                      }),
                               Always("readmit", [](Member& m) { m.Readmit(kNow); }),
                               Always("cordon", [](Member& m) { m.Cordon(); }),
                               {"drain", [](Member& m) { return m.connection() && (m.Drain(), true); }},
                               {"assign",
                                [](Member& m) {
                                  if (!m.connection() || m.draining() || m.barred().contains(kJob)) return false;
                                  m.SetJob(kJob);
                                  return m.Fetch(kNow), true;
                                }},
                               Always("leave job", LeaveJob),
                               {"rest",
                                [](Member& m) {
                                  if (!m.Assigned()) return false;
                                  m.Rest(kJob, kNow + Seconds(60));
                                  return LeaveJob(m), true;
                                }},
                               {"bar", [](Member& m) { return m.Assigned() && (m.Bar(kJob), LeaveJob(m), true); }},
                               Always("unbar", [](Member& m) { m.Unbar(kJob); }),
                               Always("restart of the coordinator", [](Member& m) {
                                 m = Member(m.record());
                                 m.Recover(kNow);
                                 if (m.Assigned()) m.RecoverStage(false);
                               })};
  for (const uint64_t nonce : {uint64_t{1}, uint64_t{2}}) {
    events.push_back({absl::StrCat("connect ", nonce), [nonce](Member& m) { return Connect(m, nonce, true); }});
    events.push_back({absl::StrCat("join ", nonce), [nonce](Member& m) { return Connect(m, nonce, false); }});
  }
  return events;
}

std::string PresenceKey(const Member& m) {
  return absl::StrCat(m.connection().has_value(), m.has_spoken(), m.lost(), m.left(), m.draining(), m.Assigned(),
                      m.barred().size(), m.rests_from() == kJob, m.record().start_nonce, m.record().quarantine,
                      m.record().cordoned);
}

void CheckPresence(const Member& before, const std::string& event, const Member& after) {
  const bool returns = event.starts_with("connect") || event.starts_with("join");
  const bool restarts = event.starts_with("restart");
  ASSERT_TRUE(after.lost() || !after.left());
  ASSERT_FALSE(after.lost() && after.connection()) << "a lost member is connected";
  ASSERT_TRUE(!before.lost() || after.lost() || returns || restarts) << "only a stream brings it back";
  ASSERT_TRUE(before.lost() || !after.lost() || event == "lose" || event == "leave" || event == "quarantine");
  ASSERT_FALSE(returns && (after.lost() || !after.barred().empty() || !after.rests_from().value.empty()));
  ASSERT_TRUE(!returns || (after.has_spoken() && after.heard() == kNow));
  ASSERT_FALSE(event.starts_with("join") && (after.draining() || after.Assigned())) << "a new process inherits";
  ASSERT_EQ(after.draining(), event == "drain" || (before.draining() && !restarts && !event.starts_with("join") &&
                                                   !(returns && before.left())));
  ASSERT_TRUE(after.rests_from().value.empty() || after.barred().contains(after.rests_from()));
  ASSERT_LE(after.heard(), kNow);
  ASSERT_LE(after.lost_at(), kNow);
  ASSERT_EQ(after.Gone(),
            after.lost() && !after.Assigned() && after.record().quarantine.empty() && !after.record().cordoned);
  const std::string silence = SilenceOf(after, Seconds(2), kNow);
  ASSERT_EQ(silence.empty(), after.lost() || after.has_spoken());
  ASSERT_EQ(SilenceOf(after, Seconds(2), kNow + Seconds(6)).empty(), after.lost());
}

TEST(Member, KeepsItsPresenceInEveryStateAfterEveryEvent) {
  EXPECT_GT(Explore(PresenceEvents(), PresenceKey, CheckPresence), 100u);
}

std::string PartKey(const Member& m) {
  Member copy = m;
  uint32_t unanswered = 0;
  while (copy.AnswerAssignment()) ++unanswered;
  return absl::StrCat(m.Assigned(), static_cast<int>(m.stage()), m.finished(), m.left_out(), m.step(), unanswered,
                      m.fetch_reports(), m.wish().has_value(), m.link_too_slow(), m.not_waited_for());
}

std::vector<Event> PartEvents() {
  const auto trains = [](const Member& m) { return m.stage() == Stage::kTraining; };
  return {{"assign",
           [](Member& m) {
             if (m.Assigned()) return false;
             m.SetJob(kJob);
             return m.Fetch(kNow), true;
           }},
          Always("leave job", LeaveJob),
          {"ready", [](Member& m) { return m.Assigned() && (m.AnswerAssignment(), m.Train(), true); }},
          {"assignment sent", [](Member& m) { return m.Assigned() && (m.SentAssignment(), m.Resume(), true); }},
          {"job updated",
           [](Member& m) {
             Member copy = m;
             const bool few = !copy.AnswerAssignment() || !copy.AnswerAssignment();
             return m.Assigned() && few && (m.SentAssignment(), true);
           }},
          {"reaches 5", [trains](Member& m) { return trains(m) && (m.Reached(5, kNow), true); }},
          {"reaches 3", [trains](Member& m) { return trains(m) && (m.Reached(3, kNow), true); }},
          {"dropped a sync at 4", [trains](Member& m) { return trains(m) && (m.ReachedAtLeast(4), true); }},
          {"finish", [trains](Member& m) { return trains(m) && (m.Finish(false), true); }},
          {"leave out", [trains](Member& m) { return trains(m) && (m.Finish(true), true); }},
          Always("continue", [](Member& m) { m.Continue(); }),
          {"fetch is late",
           [](Member& m) { return m.stage() == Stage::kFetching && m.fetch_reports() < 2 && m.ReportFetch() > 0; }},
          {"lease denied", [trains](Member& m) { return trains(m) && (m.Wish({}), true); }},
          {"lease granted", [trains](Member& m) { return trains(m) && (m.Granted(), true); }},
          {"slow", [trains](Member& m) { return trains(m) && (m.JudgeLink("slow"), m.Exclude(true), true); }},
          {"fast", [trains](Member& m) { return trains(m) && (m.JudgeLink(""), m.Exclude(false), true); }}};
}

void CheckPart(const Member& before, const std::string& event, const Member& after) {
  ASSERT_EQ(after.Assigned(), after.stage() != Stage::kNone);
  ASSERT_TRUE(after.finished() || !after.left_out());
  if (!after.Assigned() && event == "leave job") {
    Member fresh(after.record());
    fresh.Recover(kNow);
    if (before.Assigned()) ASSERT_EQ(PartKey(after).substr(0, 6), PartKey(fresh).substr(0, 6)) << "it keeps a part";
    ASSERT_FALSE(after.wish() || after.not_waited_for() || !after.link_too_slow().empty());
  }
  ASSERT_TRUE(after.step() >= before.step() || event == "leave job" || event == "assign") << "its clock goes back";
  ASSERT_TRUE(!before.finished() || after.finished() || event == "leave job" || event == "continue");
  ASSERT_TRUE(after.stage() != Stage::kFetching || (after.step() == 0 && !after.finished()));
  Member answers = after;
  ASSERT_TRUE(event != "assignment sent" || (answers.AnswerAssignment() && !answers.AnswerAssignment()));
}

TEST(Member, KeepsItsPartInAJobInEveryStateAfterEveryEvent) {
  EXPECT_GT(Explore(PartEvents(), PartKey, CheckPart), 100u);
}

TEST(Member, CutsTheReportedTimeOfAStep) {
  Member member(WorkerRecord{});
  Heartbeat heartbeat;
  heartbeat.step_ns = -1;
  member.Report(heartbeat);
  EXPECT_EQ(member.heartbeat().step_ns, 0);
  heartbeat.step_ns = Seconds(4000).ns;
  member.Report(heartbeat);
  EXPECT_EQ(member.heartbeat().step_ns, Seconds(3600).ns);
  EXPECT_TRUE(member.NotePace(7));
  EXPECT_FALSE(member.NotePace(7)) << "logged once";
}

}  // namespace
}  // namespace atl
