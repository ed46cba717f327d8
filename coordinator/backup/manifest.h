// SPDX-License-Identifier: Apache-2.0
// The file BACKUP of a backup: every file of the state directory that it holds, with its SHA-256
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
constexpr char kRestoredName[] = "RESTORED";  // what becomes of it in a state directory made from a backup
constexpr uint64_t kManifestLimitBytes = uint64_t{256} << 20;
constexpr size_t kBufferBytes = size_t{1} << 20;  // files are read in pieces of this size

struct Manifest {
  std::string state_dir;                // where it comes from, for people
  int64_t wall_s = 0;                   // Unix time at which it was made
  uint64_t bytes = 0;                   // of all files, a file of several names once
  std::map<std::string, Sha256> files;  // by path below the directory
};

// Whether `path` (relative, with slashes) names a file that a backup holds: the ledger and its log, and what lies below
// jobs, blobs and events. Never one that leads out of the directory, and none that was not written to its end.
bool IsStateFile(const std::string& path);

// Snapshots are immutable, and checkpoints are further names of them: of equal content one file is enough.
bool MayBeLinked(const std::string& path);

// The files of a state or backup below jobs, blobs and events, sorted. Links to directories are followed, so that a job
// may lie on another disk. What goes away meanwhile is left out; Unavailable when something cannot be listed.
absl::StatusOr<std::vector<std::string>> ListStateFiles(const std::string& root);

std::string ToText(const Manifest& manifest);
// DataLoss, naming the line, when it is not what ToText writes.
absl::StatusOr<Manifest> ParseManifest(const std::string& text);

absl::StatusOr<Sha256> HashFile(const Files& files, const std::string& path);

}  // namespace atl::backup

#endif  // ATOLL_COORDINATOR_BACKUP_MANIFEST_H_
