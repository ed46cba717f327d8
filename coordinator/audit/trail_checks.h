// SPDX-License-Identifier: Apache-2.0
// Checks the audit log (docs/formats/audit-log.md): each line holds the SHA-256 of the previous one.
#ifndef ATOLL_COORDINATOR_AUDIT_TRAIL_CHECKS_H_
#define ATOLL_COORDINATOR_AUDIT_TRAIL_CHECKS_H_

#include <string>

#include "common/base/files.h"
#include "coordinator/audit/findings.h"

namespace atl::audit {

// Reads every line and reports breaks of the chain, missing files, and lines that were not written completely.
void CheckTrail(const Files& files, const std::string& root, Report& report);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_TRAIL_CHECKS_H_
