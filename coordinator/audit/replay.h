// SPDX-License-Identifier: Apache-2.0
// Recomputes every committed round that is still held from its contributions and compares bits.
#ifndef ATOLL_COORDINATOR_AUDIT_REPLAY_H_
#define ATOLL_COORDINATOR_AUDIT_REPLAY_H_

#include "common/base/status.h"
#include "coordinator/audit/findings.h"
#include "coordinator/audit/verify.h"

namespace atl::audit {

// A round is held when its segment is there and the ledger has committed it. It is recomputed where there is a state of
// its fragment to start from: a snapshot or a checkpoint of the same epoch at or before its version, and every round in
// between. Compared are weights, update (every byte), content hash, and on the way every snapshot that is met, with
// momentum and residual. Files that cannot be read are damage as in VerifyState. Counts: "rounds held", "rounds equal",
// "rounds that differ", "rounds without a state to start from", "rounds of another arithmetic". Memory: 12 bytes a
// parameter of the largest fragment, twice, and one round of it.
absl::Status ReplayState(const Place& place, Report& report);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_REPLAY_H_
