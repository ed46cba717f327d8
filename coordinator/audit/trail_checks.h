// SPDX-License-Identifier: Apache-2.0
// The audit log (docs/formats/audit-log.md): that each line holds the SHA-256 of the one before it.
#ifndef ATOLL_COORDINATOR_AUDIT_TRAIL_CHECKS_H_
#define ATOLL_COORDINATOR_AUDIT_TRAIL_CHECKS_H_

#include <string>

#include "common/base/files.h"
#include "coordinator/audit/findings.h"

namespace atl::audit {

// Reads every line and says where the chain is broken, which files are missing, and what was not written to its end.
void CheckTrail(const Files& files, const std::string& root, Report& report);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_TRAIL_CHECKS_H_
