// SPDX-License-Identifier: Apache-2.0
// Everything that can be checked without computing: ledger, round log, snapshots, checkpoints, stored files.
#ifndef ATOLL_COORDINATOR_AUDIT_VERIFY_H_
#define ATOLL_COORDINATOR_AUDIT_VERIFY_H_

#include <string>

#include "common/base/files.h"
#include "common/base/status.h"
#include "coordinator/audit/findings.h"

namespace atl::audit {

// Where the parts of a state lie. The ledger is always a file of this machine; the others may be anywhere.
struct Place {
  const Files& files;
  std::string root;
  std::string ledger;         // path of ledger.sqlite
  const Files& ledger_files;  // reads it and its log
};

// Reads every byte. What is wrong goes into `report`; an error means that the audit could not be made.
absl::Status VerifyState(const Place& place, Report& report);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_VERIFY_H_
