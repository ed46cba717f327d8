// SPDX-License-Identifier: Apache-2.0
// Whether the segments of committed rounds that are still on disk hold what the ledger counts. Every contribution of a
// committed round was flushed before the commit, and its update before any snapshot of the version that it led to or of
// a later one. So a segment without a contribution was damaged since, and one without its update where there is such a
// snapshot; where there is none the update is recomputed from the contributions. Nothing here changes a file. Cost: the
// record headers and the small messages of each segment, never a contribution's bytes. Thread rule: that of the ledger
// given.
#ifndef ATOLL_COORDINATOR_STORE_HELD_ROUNDS_H_
#define ATOLL_COORDINATOR_STORE_HELD_ROUNDS_H_

#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/plan/records.h"
#include "coordinator/store/damaged_round.h"
#include "coordinator/store/data_directory.h"
#include "coordinator/store/ledger.h"

namespace atl {

// DataLoss, as that sentence, when a contribution that `record` counts is not in the segment, or its update where it
// cannot be recomputed, or the segment is not there. Another error when it cannot be read.
absl::Status CheckHeldRound(const Files& files, const DataDirectory& directory, const RoundRecord& record);

// Of the jobs that have not ended, the newest segments on disk of each fragment whose rounds the ledger has committed,
// by job, fragment and version. A start must not last longer the more rounds are kept: `verify` looks at all. Errors
// are those of the ledger.
constexpr size_t kRoundsCheckedAtStart = 64;  // of a fragment
absl::StatusOr<std::vector<DamagedRound>> CheckHeldRounds(const Files& files, const DataDirectory& directory,
                                                          const Ledger& ledger, const RecoveredState& state);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_HELD_ROUNDS_H_
