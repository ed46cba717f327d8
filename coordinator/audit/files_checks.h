// SPDX-License-Identifier: Apache-2.0
// The files of one job against the ledger: segments, snapshots, checkpoints.
#ifndef ATOLL_COORDINATOR_AUDIT_FILES_CHECKS_H_
#define ATOLL_COORDINATOR_AUDIT_FILES_CHECKS_H_

#include <string>

#include "common/base/files.h"
#include "coordinator/audit/findings.h"
#include "coordinator/audit/ledger_checks.h"
#include "coordinator/audit/state_paths.h"

namespace atl::audit {

// Reads every byte of every file of the job and says what is damaged, what contradicts the ledger and what is missing.
void CheckJobFiles(const Files& files, const std::string& root, const LedgerMeta& meta, const JobStanding& standing,
                   const JobFiles& job_files, Report& report);

// Every stored file against its name.
void CheckBlobs(const Files& files, const StateFiles& state, Report& report);
// That the stored files which jobs need are there.
void CheckNeededBlobs(const std::string& root, const LedgerImage& image, const StateFiles& state, Report& report);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_FILES_CHECKS_H_
