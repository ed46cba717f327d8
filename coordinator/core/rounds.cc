// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/rounds.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/plan/limits.h"

namespace atl {
namespace {

constexpr Duration kDay = Seconds(86'400);

uint32_t MinimumOf(const RoundRule& rule) {
  return std::max(1u, rule.minimum > rule.finished ? rule.minimum - rule.finished : 0u);
}

Instant ArrivalNumber(const Round& round, size_t index) {
  std::vector<Instant> at;
  at.reserve(ArrivedOf(round));
  for (const auto& [worker, arrival] : round.accepted) at.push_back(arrival.at);
  for (const auto& [worker, drop] : round.dropped) at.push_back(drop.at);
  std::sort(at.begin(), at.end());
  return at[index];
}

std::vector<WorkerId> DroppedOf(const Round& round) {
  std::vector<WorkerId> dropped;
  dropped.reserve(round.dropped.size());
  for (const auto& [worker, drop] : round.dropped) dropped.push_back(worker);
  return dropped;
}

std::string AllThere(const Round& round) {
  const std::string dropped = ListOf(DroppedOf(round));
  if (round.accepted.empty()) return absl::StrCat("every expected sync is dropped: ", dropped);
  return absl::StrCat("all ", round.accepted.size(), " expected contributions are there",
                      round.dropped.empty() ? "" : absl::StrCat("; dropped: ", dropped));
}

bool NobodyMissing(const Round& round) {
  return std::all_of(round.expected.begin(), round.expected.end(), [&](const WorkerId& worker) {
    return round.accepted.contains(worker) || round.dropped.contains(worker);
  });
}

}  // namespace

uint32_t ArrivedOf(const Round& round) { return static_cast<uint32_t>(round.accepted.size() + round.dropped.size()); }

uint32_t QuorumOf(const Round& round, const RoundRule& rule) {
  // Contributors that are not expected: they left, were lost, or joined during this round.
  const auto unexpected = [&](const auto& entry) { return !round.expected.contains(entry.first); };
  const auto others = std::count_if(round.accepted.begin(), round.accepted.end(), unexpected) +
                      std::count_if(round.dropped.begin(), round.dropped.end(), unexpected);
  const auto voters = static_cast<uint32_t>(round.expected.size()) + static_cast<uint32_t>(others) + rule.on_their_way;
  const uint32_t wanted = rule.quorum != 0 ? rule.quorum : voters / 2 + 1;
  return std::max(wanted, MinimumOf(rule));
}

std::vector<WorkerId> MissingOf(const Round& round) {
  std::vector<WorkerId> missing;
  for (const WorkerId& w : round.expected) {
    if (!round.accepted.contains(w) && !round.dropped.contains(w)) missing.push_back(w);
  }
  return missing;
}

RoundVerdict DecideRound(const Round& round, const RoundRule& rule, Instant now) {
  RoundVerdict verdict;
  if (round.closing) return verdict;
  const uint32_t have = ArrivedOf(round);
  const uint32_t quorum = QuorumOf(round, rule);
  const bool all_there = NobodyMissing(round);
  if (all_there && rule.on_their_way == 0 && have >= MinimumOf(rule)) {
    verdict.close = true;
  } else if (have >= quorum && !round.accepted.empty()) {
    verdict.wake = ArrivalNumber(round, quorum - 1) + rule.grace;
    verdict.close = now >= verdict.wake;
  } else {
    verdict.wake = round.deadline;
    verdict.overdue = now >= round.deadline;
    verdict.nobody = all_there;
  }
  if (verdict.close) verdict.wake = kNever;
  if (rule.flushing > 0) verdict.close = false;  // an event ends it
  return verdict;
}

std::string ReasonOf(const Round& round, const RoundRule& rule, Instant now) {
  if (round.closing) return "is being merged";
  RoundRule flushed = rule;
  flushed.flushing = 0;
  const RoundVerdict verdict = DecideRound(round, flushed, now);
  if (verdict.close && rule.flushing > 0) {
    return rule.flushing == 1 ? "waits for a contribution that is being written"
                              : absl::StrCat("waits for ", rule.flushing, " contributions that are being written");
  }
  const uint32_t have = ArrivedOf(round);
  const uint32_t quorum = QuorumOf(round, rule);
  const std::vector<WorkerId> missing = MissingOf(round);
  if (missing.empty() && rule.on_their_way == 0 && have >= MinimumOf(rule)) return AllThere(round);
  if (have < quorum || round.accepted.empty()) {
    return absl::StrCat("it has ", have, " of the ", quorum, " contributions that it needs",
                        missing.empty() ? "" : absl::StrCat("; missing ", ListOf(missing)));
  }
  const std::string others = missing.empty()
                                 ? absl::StrCat(rule.on_their_way, rule.on_their_way == 1 ? " that has" : " that have",
                                                " been given the job again")
                                 : ListOf(missing);
  if (verdict.close) {
    return absl::StrCat("quorum ", have, " of ", quorum, " and the grace window has passed; without ", others);
  }
  return absl::StrCat("quorum ", have, " of ", quorum, " reached; waits ", SecondsOf(verdict.wake - now), " for ",
                      others);
}

uint64_t NewestMultiple(uint64_t every, Version version) {
  return every == 0 ? 0 : version.value - version.value % every;
}

Duration SpreadOf(const Round& round) {
  const uint32_t arrived = ArrivedOf(round);
  return arrived < 2 ? Duration{} : ArrivalNumber(round, arrived - 1) - ArrivalNumber(round, 0);
}

Duration GraceWindow(std::vector<Duration> spreads, Duration overlap_slack, Duration grace_max) {
  Duration grace = limits::kGraceMinimum;
  if (!spreads.empty()) {
    std::sort(spreads.begin(), spreads.end());
    grace = std::max(grace, spreads[spreads.size() / 2] / 10);
  }
  grace = std::max(grace, overlap_slack / 2);
  return grace_max.ns > 0 ? std::min(grace, grace_max) : grace;
}

Duration RoundDeadline(Duration wanted, Duration membership_timeout, Duration grace, Duration slowest_period) {
  const Duration least = membership_timeout + grace;
  return wanted.ns > 0 ? std::max(wanted, least) : least + slowest_period * 3 / 2;
}

Duration TimesAtMostADay(Duration value, uint64_t factor) {
  if (value.ns <= 0 || factor == 0) return {};
  const auto most = static_cast<uint64_t>(kDay.ns / value.ns);
  return factor >= most ? kDay : value * static_cast<int64_t>(factor);
}

std::string ListOf(const std::vector<WorkerId>& workers) {
  if (workers.empty()) return "nobody";
  std::string out;
  for (size_t i = 0; i < workers.size(); ++i) {
    const char* joint = i == 0 ? "" : i + 1 == workers.size() ? " and " : ", ";
    absl::StrAppend(&out, joint, workers[i].value);
  }
  return out;
}

std::string SecondsOf(Duration d) {
  const int64_t whole = d.ns <= 0 ? 0 : (d.ns + 999'999'999) / 1'000'000'000;
  return absl::StrCat(whole, " s");
}

}  // namespace atl
