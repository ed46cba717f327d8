// SPDX-License-Identifier: Apache-2.0
// Checks everything that needs no recomputation: ledger, round log, snapshots, checkpoints, stored files, audit log.
#ifndef ATOLL_COORDINATOR_AUDIT_VERIFY_H_
#define ATOLL_COORDINATOR_AUDIT_VERIFY_H_

#include <string>

#include "common/base/files.h"
#include "common/base/status.h"
#include "coordinator/audit/findings.h"

namespace atl::audit {

// The location of the parts of a state. The ledger is always a file of this machine; the other parts
// are read through `files`.
struct Place {
  const Files& files;
  std::string root;
  std::string ledger;         // path of ledger.sqlite
  const Files& ledger_files;  // for the ledger and its log
};

// Reads every byte. Faults are added to `report`; an error means that the audit was impossible.
absl::Status VerifyState(const Place& place, Report& report);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_VERIFY_H_
