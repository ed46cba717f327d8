// SPDX-License-Identifier: Apache-2.0
// Checks the files of one job against the ledger: segments, snapshots, checkpoints.
#ifndef ATOLL_COORDINATOR_AUDIT_FILES_CHECKS_H_
#define ATOLL_COORDINATOR_AUDIT_FILES_CHECKS_H_

#include <string>

#include "common/base/files.h"
#include "coordinator/audit/findings.h"
#include "coordinator/audit/ledger_checks.h"
#include "coordinator/audit/state_paths.h"

namespace atl::audit {

// Reads every byte of the job's files, except of checkpoints that are missing or incomplete in the ledger, and
// reports damage, contradictions to the ledger, and missing files.
void CheckJobFiles(const Files& files, const std::string& root, BootNumber boot, const JobStanding& standing,
                   const JobFiles& job_files, Report& report);

// Checks that the SHA-256 of every stored file is the file's name.
void CheckBlobs(const Files& files, const StateFiles& state, Report& report);
// Checks that the stored files needed by jobs exist.
void CheckNeededBlobs(const std::string& root, const LedgerImage& image, const StateFiles& state, Report& report);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_FILES_CHECKS_H_
