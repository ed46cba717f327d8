// SPDX-License-Identifier: Apache-2.0
// Copies the files of a state or backup between directories. An interrupted copy can be resumed.
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

// Writes the first `bytes` bytes of `from` to a new file `to`, replacing an existing one, flushes
// it and returns their SHA-256. OutOfRange: `from` is shorter.
absl::StatusOr<Sha256> CopyBytes(Files& files, const File& from, uint64_t bytes, const std::string& to);

// Copies every file of `manifest` from `from` to `to` and flushes files and directories. An
// existing file with the right SHA-256 is kept; any other is rewritten. DataLoss: a file of `from`
// does not have the SHA-256 of the manifest.
absl::Status CopyFiles(Files& files, const Manifest& manifest, const std::string& from, const std::string& to);

// Copies the files of `cut`, taken from `from`, and adds them to `manifest`; each is closed once it is copied.
// An existing file with the right content is kept. FailedPrecondition: a file was dropped and, for lack of
// descriptors, was not held open. Aborted: before all append-only files were copied, one of them was truncated
// or a coordinator started on `from`; take another cut. Also errors of `room`.
absl::Status CopyCut(Files& files, Cut& cut, const std::string& from, const std::string& to, const Room& room,
                     Manifest& manifest);

// Removes files in `to` that an earlier, interrupted copy left and `manifest` does not name.
absl::Status RemoveStrays(Files& files, const Manifest& manifest, const std::string& to);

}  // namespace atl::backup

#endif  // ATOLL_COORDINATOR_BACKUP_COPY_H_
