// SPDX-License-Identifier: Apache-2.0
// Lists the files below a state directory, by the names of docs/formats/state-directory.md.
#ifndef ATOLL_COORDINATOR_AUDIT_STATE_PATHS_H_
#define ATOLL_COORDINATOR_AUDIT_STATE_PATHS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"
#include "coordinator/audit/findings.h"
#include "coordinator/store/data_directory.h"

namespace atl::audit {

// Names a segment or kept update (by the version from which its round starts) or a snapshot of one job.
struct FileKey {
  uint64_t epoch = 0;
  uint32_t fragment = 0;
  uint64_t version = 0;
  FragmentVersion At() const { return {{fragment}, {version}}; }
  friend auto operator<=>(const FileKey&, const FileKey&) = default;
};

struct CheckpointFiles {
  std::string directory;
  bool manifest = false;
  std::map<uint32_t, std::string> fragments;  // path by fragment
};

struct JobFiles {
  std::map<FileKey, std::string> segments, snapshots, updates;  // path by key; `updates`: kept without their segment
  std::map<uint64_t, CheckpointFiles> checkpoints;              // by step
  bool empty() const { return segments.empty() && snapshots.empty() && updates.empty() && checkpoints.empty(); }
};

struct StateFiles {
  std::map<std::string, JobFiles> jobs;
  std::map<Sha256, std::string> blobs;  // path by content
};

// Lists the stored files and the files of jobs below `root`. Empty job directories do not count. Notes incomplete
// files and names unknown to the format.
absl::StatusOr<StateFiles> ListState(const Files& files, const std::string& root, Report& report);

// The file in an unfinished backup or restored state (docs/formats/backup.md), and the beginning of
// its text in a restored state.
inline constexpr char kUnfinishedName[] = "UNFINISHED";
inline constexpr char kUnfinishedRestore[] = "A restore of ";
// FailedPrecondition for an unfinished copy: it cannot be audited, run on or restored.
absl::Status CheckIsFinished(const Files& files, const std::string& root);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_STATE_PATHS_H_
