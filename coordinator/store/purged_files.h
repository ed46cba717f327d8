// SPDX-License-Identifier: Apache-2.0
// Stored files (blob_store.h) that nobody needs any more: weights, manifests, tokenizers and tasks that jobs were
// submitted with which have ended and whose parameters are gone.
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

// Removes each stored file that such jobs name (`atoll job purge`, or none ever had parameters) and no other does. A
// file that no job names stays: it was uploaded for one that is still to be submitted. While no store is at work, since
// a job that is being submitted has looked for its files before the ledger knows it. The log says what went, and warns
// of what cannot be removed, which stays.
DroppedFiles DropFilesOfPurgedJobs(Files& files, const DataDirectory& directory, const RecoveredState& state, Log& log);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_PURGED_FILES_H_
