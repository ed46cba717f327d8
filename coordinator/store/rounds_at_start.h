// SPDX-License-Identifier: Apache-2.0
// Reads the round logs of all jobs that have not ended when a coordinator starts, before it serves
// any request.
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
  std::map<JobId, std::string> unusable;  // jobs with unreadable accepted contributions, and the reason
  std::vector<DamagedRound> damaged;      // committed rounds with missing parts; no file was changed
  std::vector<DamagedRound> cut;          // open rounds whose torn tail was cut off
};

// Opens the segments of open rounds, adds their accepted contributions to `state`, and checks the
// segments of committed rounds (held_rounds.h). Errors are those of the ledger.
absl::StatusOr<RoundsAtStart> ReadRoundsAtStart(RoundLog& log, const Files& files, const DataDirectory& directory,
                                                const Ledger& ledger, RecoveredState& state);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_ROUNDS_AT_START_H_
