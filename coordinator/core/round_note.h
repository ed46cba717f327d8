// SPDX-License-Identifier: Apache-2.0
// The event log's lines about a committed round and a job's state. Made at the commit, and again
// from the ledger if a crash came between the commit and the line. Pure.
#ifndef ATOLL_COORDINATOR_CORE_ROUND_NOTE_H_
#define ATOLL_COORDINATOR_CORE_ROUND_NOTE_H_

#include "common/plan/records.h"
#include "coordinator/core/events.h"

namespace atl {

constexpr char kRoundCommitted[] = "round committed";  // JobNote::kind

JobNote RoundCommittedNote(const RoundRecord& record);
JobNote StateNote(const JobId& job, JobState state, const std::string& reason);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_ROUND_NOTE_H_
