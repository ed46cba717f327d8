// SPDX-License-Identifier: Apache-2.0
// `atoll-coordinator verify` and `atoll-coordinator replay`: audits of the state directory of a
// stopped coordinator, with the readers of coordinator/store and the arithmetic of
// coordinator/aggregate. tests/foreign has the independent reading (docs/adr/0032).
#ifndef ATOLL_COORDINATOR_AUDIT_AUDIT_COMMAND_H_
#define ATOLL_COORDINATOR_AUDIT_AUDIT_COMMAND_H_

#include <iosfwd>
#include <string>

namespace atl::audit {

struct AuditOptions {
  bool replay = false;  // recompute; otherwise verify
  std::string state_dir;
  bool json = false;
};

// Exit codes (docs/backup.md).
constexpr int kExitWell = 0;
constexpr int kExitNoAudit = 1;  // the directory is in use, unreadable, or no state: no result about the state
constexpr int kExitDamage = 65;  // sysexits EX_DATAERR

// Writes the report to `out`, or one error message to `err` if no audit is possible. Changes
// nothing in the directory. Keeps a coordinator from starting on it during the audit.
int RunAudit(const AuditOptions& options, std::ostream& out, std::ostream& err);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_AUDIT_COMMAND_H_
