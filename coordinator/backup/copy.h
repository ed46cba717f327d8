// Copies the files of a manifest from one directory to another, so that after a break it can go on.
#ifndef ATOLL_COORDINATOR_BACKUP_COPY_H_
#define ATOLL_COORDINATOR_BACKUP_COPY_H_

#include <string>

#include "common/base/files.h"
#include "common/base/status.h"
#include "coordinator/backup/manifest.h"

namespace atl::backup {

// Copies every file of `manifest` from `from` to `to` and flushes files and directories. A file that is there already
// with its SHA-256 is kept; one that is there otherwise is written anew. DataLoss: a file of `from` does not have the
// SHA-256 of the manifest.
absl::Status CopyFiles(Files& files, const Manifest& manifest, const std::string& from, const std::string& to);

// Removes what an earlier, broken-off copy has left in `to` and `manifest` does not have: files of `earlier`, and the
// write-ahead log and shared memory of a ledger.
absl::Status RemoveOthers(Files& files, const Manifest& earlier, const Manifest& manifest, const std::string& to);

}  // namespace atl::backup

#endif  // ATOLL_COORDINATOR_BACKUP_COPY_H_
