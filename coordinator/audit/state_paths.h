// SPDX-License-Identifier: Apache-2.0
// What lies below a state directory, by the names of docs/formats/state-directory.md.
#ifndef ATOLL_COORDINATOR_AUDIT_STATE_PATHS_H_
#define ATOLL_COORDINATOR_AUDIT_STATE_PATHS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"
#include "coordinator/audit/findings.h"

namespace atl::audit {

// Names a segment (the version that its round starts from) or a snapshot of one job.
struct FileKey {
  uint64_t epoch = 0;
  uint32_t fragment = 0;
  uint64_t version = 0;
  friend auto operator<=>(const FileKey&, const FileKey&) = default;
};

struct CheckpointFiles {
  std::string directory;
  bool manifest = false;
  std::map<uint32_t, std::string> fragments;  // path by fragment
};

struct JobFiles {
  std::map<FileKey, std::string> segments, snapshots, updates;  // path by key; updates of segments that were dropped
  std::map<uint64_t, CheckpointFiles> checkpoints;              // by step
  bool empty() const { return segments.empty() && snapshots.empty() && updates.empty() && checkpoints.empty(); }
};

struct StateFiles {
  std::map<std::string, JobFiles> jobs;
  std::map<std::string, std::string> blobs;  // path by SHA-256
};

// Lists everything below `root`; a job of which there are only directories is none. Files half written are noted, names
// that the format does not have too.
absl::StatusOr<StateFiles> ListState(const Files& files, const std::string& root, Report& report);

// What stands in a backup, and in a restored state, until it is whole (docs/formats/backup.md), and how its text begins
// in the second.
inline constexpr char kUnfinishedName[] = "UNFINISHED";
inline constexpr char kUnfinishedRestore[] = "A restore of ";
// FailedPrecondition for a copy that was not finished: there is nothing to audit, to run on or to restore.
absl::Status CheckIsFinished(const Files& files, const std::string& root);

std::string LedgerPath(const std::string& root);
std::string SegmentPath(const std::string& root, const std::string& job, const FileKey& key);
std::string CheckpointDirectory(const std::string& root, const std::string& job, uint64_t step);

}  // namespace atl::audit

#endif  // ATOLL_COORDINATOR_AUDIT_STATE_PATHS_H_
