// SPDX-License-Identifier: Apache-2.0
// The file BACKUP of a backup: lists every file of the state directory in the backup, with its SHA-256
// (docs/formats/backup.md).
#ifndef ATOLL_COORDINATOR_BACKUP_MANIFEST_H_
#define ATOLL_COORDINATOR_BACKUP_MANIFEST_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/hash.h"
#include "common/base/status.h"

namespace atl::backup {

constexpr char kManifestName[] = "BACKUP";
constexpr char kRestoredName[] = "RESTORED";  // its name in a state directory made from a backup
constexpr uint64_t kManifestLimitBytes = uint64_t{256} << 20;
constexpr size_t kBufferBytes = size_t{1} << 20;  // files are read in pieces of this size

struct Manifest {
  std::string state_dir;                // the source, for people
  int64_t wall_s = 0;                   // Unix time of the backup
  uint64_t bytes = 0;                   // of all files; a file with several names counts once
  std::map<std::string, Sha256> files;  // by path below the directory
};

// Whether `path` (relative, with slashes) names a file that a backup holds: the ledger and its log, and files
// below jobs, blobs and events. Never a path outside the directory, and never an incomplete file.
bool IsStateFile(const std::string& path);

// Whether `path` is a snapshot. These are immutable, and checkpoints link to them: equal content needs only one file.
bool MayBeLinked(const std::string& path);

// The files of a state or backup below jobs, blobs and events, sorted. Follows links to directories, so that a
// job may be on another disk. Files removed meanwhile are left out; Unavailable if a listing fails.
absl::StatusOr<std::vector<std::string>> ListStateFiles(const std::string& root);

std::string ToText(const Manifest& manifest);
// DataLoss if the text is not in the form that ToText writes; FailedPrecondition if its first line is another.
absl::StatusOr<Manifest> ParseManifest(const std::string& text);

}  // namespace atl::backup

#endif  // ATOLL_COORDINATOR_BACKUP_MANIFEST_H_
