// SPDX-License-Identifier: Apache-2.0
// Recomputes every stored committed round from its contributions and compares the bits.
#ifndef ATOLL_COORDINATOR_AUDIT_REPLAY_H_
#define ATOLL_COORDINATOR_AUDIT_REPLAY_H_

#include "common/base/status.h"
#include "coordinator/audit/findings.h"
#include "coordinator/audit/verify.h"

namespace atl::audit {

// A round is stored if its segment exists and the ledger has committed it. It can be recomputed if its fragment has a
// state to start from: a snapshot or checkpoint of the same epoch at or before its version, and every round in between.
// Compares norms, weights, update (every byte), content hash, and each snapshot passed, with momentum and residual.
// Unreadable files are damage as in VerifyState. Counts: "rounds held", "rounds equal", "rounds that differ", "rounds
// without a state to start from", "rounds of another arithmetic", "rounds missing", "snapshots compared", "torn
// tails". Memory: twice 12 bytes per parameter of the largest fragment, and one round of it.
absl::Status ReplayState(const Place& place, Report& report);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_REPLAY_H_
