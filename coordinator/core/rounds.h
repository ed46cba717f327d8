// SPDX-License-Identifier: Apache-2.0
// One fragment's gathering: who is expected, what has been accepted, and when that is enough (docs/design.md section 6;
// quorum and grace of Decoupled DiLoCo, 2604.21428). The decision is a function of the round, the rule and the time,
// and so is its reason. What leaves or arrives is not decided here. Pure; owned by the engine thread.
#ifndef ATOLL_COORDINATOR_CORE_ROUNDS_H_
#define ATOLL_COORDINATOR_CORE_ROUNDS_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/time.h"
#include "common/plan/records.h"

namespace atl {

struct Arrival {
  ContributionHeader header;
  Instant at;
};

// A sync that its worker has said to be lost on purpose.
struct Drop {
  uint64_t send_step = 0;
  Instant at;
};

// The round that turns `version` into `version` + 1. There is always exactly one for each fragment.
struct Round {
  Version version;                       // committed
  Digest hash;                           // content hash at that version
  Instant opened{};                      // or when somebody could contribute again
  Instant deadline{};                    // without a quorum it is reported here and extended
  std::set<WorkerId> expected;           // training at the opening, less those lost since
  std::map<WorkerId, Arrival> accepted;  // durable; never taken out but by a screen or a rollback
  std::map<WorkerId, Digest> screened;   // newest refused by a screen in this round
  std::map<WorkerId, Drop> dropped;      // as good as arrived, but with nothing; disjoint from `accepted`
  bool closing = false;                  // the aggregate works on it: nothing is accepted any more
  bool wait_told = false;                // it was noted that it waits, and that this is no fault
  bool held_over = false;                // its job was paused when something was accepted already, and has gone on
  bool past_finished = false;            // somebody who trains the job has nothing more for it and is not waited for
};

struct RoundRule {
  uint32_t minimum = 1;  // workers.min
  uint32_t quorum = 0;   // 0: majority of those expected and those who have contributed
  Duration grace{};      // means something once a quorum is there
  // Workers that ended the job, or have nothing left to train, and nothing for this fragment: they count for the
  // minimum.
  uint32_t finished = 0;
  // Of a round that its job's pause has held over: who was given the job again since and is not expected. They count
  // for the majority.
  uint32_t on_their_way = 0;
  uint32_t flushing = 0;  // uploads whose acceptance is being flushed: waited for
};

struct RoundVerdict {
  bool close = false;
  bool overdue = false;   // the deadline has passed without a quorum
  Instant wake = kNever;  // when to look again
  bool nobody = false;    // it is short of the quorum and nobody is expected in it
};
// A round in which every expected sync is dropped closes with no contribution; it is never closed so to be rid of
// others.
RoundVerdict DecideRound(const Round& round, const RoundRule& rule, Instant now);
// One clause: why it closes or what it waits for.
std::string ReasonOf(const Round& round, const RoundRule& rule, Instant now);

// Contributions that suffice once the grace window has passed.
uint32_t QuorumOf(const Round& round, const RoundRule& rule);
// Accepted or dropped: nothing more comes from so many.
uint32_t ArrivedOf(const Round& round);
// Expected and neither accepted nor dropped, by name.
std::vector<WorkerId> MissingOf(const Round& round);
// The last arrival minus the first; 0 below two.
Duration SpreadOf(const Round& round);

// Grace = max(250 ms, 10 % of the median spread, half of the slack that overlap leaves), at most `grace_max` when that
// is set.
Duration GraceWindow(std::vector<Duration> spreads, Duration overlap_slack, Duration grace_max);
// At least membership_timeout + grace; derived: that plus one and a half periods of the slowest worker.
Duration RoundDeadline(Duration wanted, Duration membership_timeout, Duration grace, Duration slowest_period);

// The newest version up to this one that `every` divides; 0 when there is none.
uint64_t NewestMultiple(uint64_t every, Version version);

// value x factor, at most one day.
Duration TimesAtMostADay(Duration value, uint64_t factor);
// "a, b and c"; "nobody" when empty.
std::string ListOf(const std::vector<WorkerId>& workers);
// Whole seconds, rounded up: "3 s".
std::string SecondsOf(Duration d);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_ROUNDS_H_
