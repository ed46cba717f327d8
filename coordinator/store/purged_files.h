// SPDX-License-Identifier: Apache-2.0
// Deletes stored files (blob_store.h) that no job needs any more: weights, manifests, tokenizers
// and tasks of jobs that have ended and whose parameters are deleted.
#ifndef ATOLL_COORDINATOR_STORE_PURGED_FILES_H_
#define ATOLL_COORDINATOR_STORE_PURGED_FILES_H_

#include <cstdint>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/plan/records.h"
#include "coordinator/store/data_directory.h"

namespace atl {

struct DroppedFiles {
  uint64_t files = 0, bytes = 0;
};

// Removes each stored file named only by ended jobs without parameters (after `atoll job purge`, or
// because the job never had any). A file that no job names stays: it may belong to a job that is
// about to be submitted. Call it while no BlobStore is in use: a job being submitted looks for its
// files before the ledger has a record of the job. Logs the removed files, and a warning for each
// file that cannot be removed.
DroppedFiles DropFilesOfPurgedJobs(Files& files, const DataDirectory& directory, const RecoveredState& state, Log& log);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_PURGED_FILES_H_
