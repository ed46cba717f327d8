// SPDX-License-Identifier: Apache-2.0
// What a start finds in the round logs of the jobs that have not ended, before anything is served.
#ifndef ATOLL_COORDINATOR_STORE_ROUNDS_AT_START_H_
#define ATOLL_COORDINATOR_STORE_ROUNDS_AT_START_H_

#include <map>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/plan/records.h"
#include "coordinator/store/damaged_round.h"
#include "coordinator/store/data_directory.h"
#include "coordinator/store/ledger.h"
#include "coordinator/store/round_log.h"

namespace atl {

struct RoundsAtStart {
  std::map<JobId, std::string> unusable;  // jobs whose accepted contributions cannot be read, and why
  std::vector<DamagedRound> damaged;      // committed rounds of which something is missing; nothing was changed
  std::vector<DamagedRound> cut;          // open rounds whose file was cut to what is whole
};

// Opens the segments of open rounds, adds what they have accepted to `state`, and looks at those of committed rounds
// (held_rounds.h). Errors are those of the ledger.
absl::StatusOr<RoundsAtStart> LookAtRounds(RoundLog& log, const Files& files, const DataDirectory& directory,
                                           const Ledger& ledger, RecoveredState& state);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_ROUNDS_AT_START_H_
