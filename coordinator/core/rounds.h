// SPDX-License-Identifier: Apache-2.0
// The round of one fragment: the expected workers, the accepted contributions, and the rule for
// closing (docs/design.md section 6; quorum and grace of Decoupled DiLoCo, 2604.21428). The
// decision and its reason are functions of the round, the rule and the time. Arrivals and
// departures are decided elsewhere. Pure; owned by the engine thread.
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

// A sync that its worker reported as dropped on purpose.
struct Drop {
  uint64_t send_step = 0;
  Instant at;
};

// The round that turns `version` into `version` + 1. There is always exactly one per fragment.
struct Round {
  Version version;                       // the committed one
  Digest hash;                           // content hash at that version
  Instant opened{};                      // or when a worker could contribute again
  Instant deadline{};                    // without a quorum it is then reported and extended
  std::set<WorkerId> expected;           // training at the opening, without those lost since
  std::map<WorkerId, Arrival> accepted;  // durable; removed only by a screen or a rollback
  std::map<WorkerId, Digest> screened;   // newest contribution refused by a screen in this round
  std::map<WorkerId, Drop> dropped;      // counts as arrived, without a contribution; disjoint from `accepted`
  bool closing = false;                  // being aggregated: nothing more is accepted
  bool wait_told = false;                // its wait was logged as normal
  bool held_over = false;                // its job was paused after an acceptance, and has resumed
  bool past_finished = false;            // a training worker has nothing more for it and is not waited for
};

struct RoundRule {
  uint32_t minimum = 1;  // workers.min
  uint32_t quorum = 0;   // 0: majority of the expected and the contributing workers
  Duration grace{};      // used once there is a quorum
  // Workers that are finished, or have nothing left to train, without a contribution to this
  // fragment: they count for the minimum.
  uint32_t finished = 0;
  // For a round held over a pause: unexpected workers that were assigned to the job again. They
  // count for the majority.
  uint32_t on_their_way = 0;
  uint32_t flushing = 0;  // uploads with an acceptance being flushed: waited for
};

struct RoundVerdict {
  bool close = false;
  bool overdue = false;   // the deadline has passed without a quorum
  Instant wake = kNever;  // when to decide again
  bool nobody = false;    // no quorum, and no worker is expected
};
// Without contributions, a round closes only if every expected sync was dropped: a quorum of drops
// alone does not close it.
RoundVerdict DecideRound(const Round& round, const RoundRule& rule, Instant now);
// One clause: why it closes, or what it waits for.
std::string ReasonOf(const Round& round, const RoundRule& rule, Instant now);

// The number of contributions that suffices once the grace window has passed.
uint32_t QuorumOf(const Round& round, const RoundRule& rule);
// The number of accepted or dropped syncs, from which nothing more comes.
uint32_t ArrivedOf(const Round& round);
// Expected and neither accepted nor dropped, by name.
std::vector<WorkerId> MissingOf(const Round& round);
// The last arrival minus the first; 0 for fewer than two.
Duration SpreadOf(const Round& round);

// Grace = max(250 ms, 10 % of the median spread, half of the slack from overlap), at most
// `grace_max` if that is set.
Duration GraceWindow(std::vector<Duration> spreads, Duration overlap_slack, Duration grace_max);
// At least membership_timeout + grace; derived: that plus one and a half periods of the slowest worker.
Duration RoundDeadline(Duration wanted, Duration membership_timeout, Duration grace, Duration slowest_period);

// The largest multiple of `every` up to this version; 0 if there is none.
uint64_t NewestMultiple(uint64_t every, Version version);

// value x factor, at most one day.
Duration TimesAtMostADay(Duration value, uint64_t factor);
// "a, b and c"; "nobody" if empty.
std::string ListOf(const std::vector<WorkerId>& workers);
// Whole seconds, rounded up: "3 s".
std::string SecondsOf(Duration d);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_ROUNDS_H_
