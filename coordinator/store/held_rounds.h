// SPDX-License-Identifier: Apache-2.0
// Checks that the segments of committed rounds on disk contain the contributions and updates that
// the ledger counts. A contribution is flushed before the commit of its round. An update is flushed
// before any snapshot of the version that it produced or of a later version. So a missing
// contribution means damage; a missing update means damage only if such a snapshot exists, and
// otherwise the update is recomputed from the contributions. No file is changed. Cost: the record
// headers and small messages of each segment, but no contribution's bytes. Thread rule: that of the
// given ledger.
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

// Checks one committed round. DataLoss, with a message of one sentence: the segment is missing, a
// contribution counted by `record` is not in it, or its update is missing and cannot be recomputed.
// Another error: the segment cannot be read.
absl::Status CheckHeldRound(const Files& files, const DataDirectory& directory, const RoundRecord& record);

// Checks, for each fragment of all jobs that have not ended, its newest kRoundsCheckedAtStart
// segments of the job's epoch, as far as their rounds are committed. Returns the damaged and
// unreadable ones, ordered by job, fragment and version. The limit keeps the start of a coordinator
// fast however many rounds are kept; `verify` checks all of them. Errors are those of the ledger.
constexpr size_t kRoundsCheckedAtStart = 64;  // per fragment
absl::StatusOr<std::vector<DamagedRound>> CheckHeldRounds(const Files& files, const DataDirectory& directory,
                                                          const Ledger& ledger, const RecoveredState& state);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_HELD_ROUNDS_H_
