// SPDX-License-Identifier: Apache-2.0
// The sentences that the core makes for people: why a job waits, why a worker is idle, what a round has merged. Pure
// functions of read-only views. They decide nothing.
#ifndef ATOLL_COORDINATOR_CORE_EXPLAIN_H_
#define ATOLL_COORDINATOR_CORE_EXPLAIN_H_

#include <map>
#include <string>

#include "coordinator/core/job.h"

namespace atl {

inline constexpr char kDiskLow[] = "the coordinator's disk is almost full: no uploads until space is freed";

// One clause: why the round closes, or what it waits for.
std::string ReasonOf(const Round& round, const RoundRule& rule, const RoundVerdict& verdict, Instant now);
// Why the job waits or is slow, with the name of the worker. Empty: it runs freely. `now`: when it is read.
std::string WaitingLine(const Run& run, const CoreContext& core, Instant now);

// "; c is fetching the job for 3 s, d takes part from its next send step": workers that are not expected in the
// fragment's round and may contribute to it.
std::string WhoMayCome(const Run& run, const Fleet& fleet, FragmentIndex fragment, Instant now);
// "fragment 1 is at version 2 while others have reached 26: starved of contributions, to which a sent none". Empty: no
// fragment is starved.
std::string StarvedLine(const Run& run, const Fleet& fleet);
// "; b holds 100 (waits for block 7)": workers with samples that are in no committed contribution. Empty: there is
// none.
std::string HoldersLine(const Run& run, const Fleet& fleet, Duration heartbeat_interval, Instant now);

std::string WhyIdle(const std::map<JobId, Job>& jobs, const Fleet& fleet, const Member& member);  // empty: not known
// The worker's strikes in its job (null: it has none), or the reason of its quarantine. Empty: it has neither.
std::string HeldAgainst(const Member& member, const Run* run);
// Why a worker is taken off the job `from`: `to` gets it, or if null, `from` has more workers than it may have.
std::string WhyMoved(const Run& from, const Run* to);
// Why a job stops when the replicas of most of its workers deviate from `at`.
std::string DeviationLine(const JobId& job, const FragmentVersion& at);
std::string NoSuchJobLine(const JobId& job);

// Kinds of lines that a worker can cause with each of its messages; the observer limits their rate.
constexpr char kDeviant[] = "deviant", kContradicted[] = "evaluation contradicted";

// Lines of the event log that are made at a commit. If a crash prevented that, they are made again from the ledger.
constexpr char kRoundCommitted[] = "round committed";  // JobNote::kind
JobNote RoundCommittedNote(const RoundRecord& record);
JobNote StateNote(const JobId& job, JobState state, const std::string& reason);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_EXPLAIN_H_
