// Whether the segments of committed rounds that are still on disk hold what the ledger counts. Every contribution of a
// committed round and its update were flushed before the commit, so a segment without them was damaged since; nothing
// here changes it. Cost: the record headers and the small messages of each segment, never a contribution's bytes.
// Thread rule: that of the ledger given.
#ifndef ATOLL_COORDINATOR_STORE_HELD_ROUNDS_H_
#define ATOLL_COORDINATOR_STORE_HELD_ROUNDS_H_

#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/plan/records.h"
#include "coordinator/store/data_directory.h"
#include "coordinator/store/ledger.h"

namespace atl {

struct DamagedRound {
  JobId job;
  std::string what;  // one sentence: file, offset, what is missing, what to do
};

// DataLoss, as that sentence, when a contribution that `record` counts or its update is not in the segment, or the
// segment is not there. Another error when it cannot be read.
absl::Status CheckHeldRound(const Files& files, const DataDirectory& directory, const RoundRecord& record);

// Of the jobs that have not ended, the newest segments on disk of each fragment whose rounds the ledger has committed,
// by job, fragment and version. A start must not last longer the more rounds are kept: `verify` looks at all. Errors
// are those of the ledger.
constexpr size_t kRoundsCheckedAtStart = 64;  // of a fragment
absl::StatusOr<std::vector<DamagedRound>> CheckHeldRounds(const Files& files, const DataDirectory& directory,
                                                          const Ledger& ledger, const RecoveredState& state);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_HELD_ROUNDS_H_
