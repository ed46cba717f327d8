// SPDX-License-Identifier: Apache-2.0
// Windows and deadlines of rounds, as integer arithmetic, and words for lists and times. Pure.
#ifndef ATOLL_COORDINATOR_CORE_ROUNDS_H_
#define ATOLL_COORDINATOR_CORE_ROUNDS_H_

#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/time.h"

namespace atl {

// Grace = max(250 ms, 10 % of the median spread, half of the slack from overlap).
Duration GraceWindow(std::vector<Duration> spreads, Duration overlap_slack);
// `wanted`, but at least membership_timeout + grace. `wanted` 0: that sum plus one and a half periods of the slowest.
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
