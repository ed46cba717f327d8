// SPDX-License-Identifier: Apache-2.0
// Copies files of a state or a backup from one directory to another, so that after a break it can go on.
#ifndef ATOLL_COORDINATOR_BACKUP_COPY_H_
#define ATOLL_COORDINATOR_BACKUP_COPY_H_

#include <cstdint>
#include <string>

#include "common/base/files.h"
#include "common/base/status.h"
#include "coordinator/backup/cut.h"
#include "coordinator/backup/manifest.h"
#include "coordinator/backup/room.h"

namespace atl::backup {

// Writes the first `bytes` bytes of `from` to a new file `to`, whatever stood there, flushes it and gives their
// SHA-256. OutOfRange: `from` is shorter.
absl::StatusOr<Sha256> CopyBytes(Files& files, const File& from, uint64_t bytes, const std::string& to);

// Copies every file of `manifest` from `from` to `to` and flushes files and directories. A file that is there already
// with its SHA-256 is kept; one that is there otherwise is written anew. DataLoss: a file of `from` does not have the
// SHA-256 of the manifest.
absl::Status CopyFiles(Files& files, const Manifest& manifest, const std::string& from, const std::string& to);

// Likewise the files of `cut`, which are of `from`, adding them to `manifest`; each is let go of once it is copied. A
// file that is there already with that content is kept. FailedPrecondition: it was dropped, and not held open for want
// of descriptors. Aborted: a file that is appended to was cut off, or a coordinator has begun to run on `from`, before
// all of those were copied; take another cut. Errors of `room`.
absl::Status CopyCut(Files& files, Cut& cut, const std::string& from, const std::string& to, const Room& room,
                     Manifest& manifest);

// Removes what an earlier, broken-off copy has left in `to` and `manifest` does not name.
absl::Status RemoveStrays(Files& files, const Manifest& manifest, const std::string& to);

}  // namespace atl::backup

#endif  // ATOLL_COORDINATOR_BACKUP_COPY_H_
