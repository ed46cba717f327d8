// SPDX-License-Identifier: Apache-2.0
// The layout of the coordinator's state directory, and the lock that admits one coordinator.
//
//   LOCK                                      held by the running coordinator (flock)
//   ledger.sqlite (-wal, -shm)                the ledger
//   blobs/aa/<sha256>                         files stored by content; <sha256>.part while incomplete
//   events/<job>.jsonl, events/_fleet.jsonl   event logs; the audit log is in events/audit/
//   jobs/<job>/rounds/e<epoch>/f<fragment>/v<version>.seg       round log segments (version the round starts from)
//   jobs/<job>/updates/e<epoch>/f<fragment>/v<version>.upd      updates of segments that were dropped
//   jobs/<job>/snapshots/e<epoch>/f<fragment>/v<version>.snap   snapshots
//   jobs/<job>/checkpoints/<step>/f<fragment>.snap, manifest    checkpoints (hard links)
//
// Numbers in names are decimal, zero-padded to 10 digits (fragments 5), so that names sort as numbers.
#ifndef ATOLL_COORDINATOR_STORE_DATA_DIRECTORY_H_
#define ATOLL_COORDINATOR_STORE_DATA_DIRECTORY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/files.h"
#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/plan/messages.h"

namespace atl {

// Names a round, and so a segment: the version from which the round starts, in one epoch of a job.
struct RoundKey {
  JobId job;
  uint64_t epoch = 0;
  FragmentVersion target;
  friend auto operator<=>(const RoundKey&, const RoundKey&) = default;
};
// Names a snapshot: a fragment at a version, in one epoch of a job.
struct SnapshotKey {
  JobId job;
  uint64_t epoch = 0;
  FragmentVersion at;
  friend auto operator<=>(const SnapshotKey&, const SnapshotKey&) = default;
};

class DataDirectory {
 public:
  explicit DataDirectory(std::string root) : root_(std::move(root)) {}
  const std::string& root() const { return root_; }
  std::string LockPath() const;
  std::string LedgerPath() const;
  std::string EventsDirectory() const;
  std::string BlobPath(const Sha256& sha256) const;
  std::string BlobPartPath(const Sha256& sha256) const;
  std::string JobDirectory(const JobId& job) const;
  std::string RoundsDirectory(const JobId& job) const;  // of all epochs
  std::string SegmentDirectory(const JobId& job, uint64_t epoch, FragmentIndex fragment) const;
  std::string SegmentPath(const RoundKey& key) const;
  std::string KeptUpdatesDirectory(const JobId& job) const;  // of all epochs
  std::string KeptUpdatePath(const RoundKey& key) const;
  std::string SnapshotsDirectory(const JobId& job) const;  // of all epochs
  std::string SnapshotDirectory(const JobId& job, uint64_t epoch, FragmentIndex fragment) const;
  std::string SnapshotPath(const SnapshotKey& key) const;
  std::string CheckpointsDirectory(const JobId& job) const;  // of all steps
  std::string CheckpointDirectory(const JobId& job, uint64_t step) const;
  std::string CheckpointFragmentPath(const JobId& job, uint64_t step, FragmentIndex fragment) const;

 private:
  std::string root_;
};

// The lock of a state directory: held alone by a coordinator, or shared by readers
// (reading_lock.h). The destructor or the death of the process releases it.
class DirectoryLock {
 public:
  virtual ~DirectoryLock() = default;
};
// Locks the directory for a coordinator; creates it durably if it is missing. Unavailable: a coordinator holds
// the lock (the message has its process id), or a reader does. FailedPrecondition: LOCK is no regular file.
absl::StatusOr<std::unique_ptr<DirectoryLock>> LockDirectory(const DataDirectory& directory);

// Creates the state directory and its missing parents, and flushes the parent of each, so that a
// power failure cannot remove the directory with all its files. The parent of an existing directory
// is flushed too, because a process may have been killed between creation and flush; that parent
// need not be readable.
absl::Status MakeDurableRoot(Files& files, const std::string& root);

// Creates the directory and flushes every directory from `path` up to `root`, so that the whole
// path is durable. Does nothing if `path` exists.
absl::Status MakeDurableDirectory(Files& files, const std::string& root, const std::string& path);

// Flushes the root of the state and the directories of jobs/ and blobs/, not those of events/.
// Called once at start: a process that was killed between the creation of a file and the flush of
// its directory leaves a name that is visible, and that a power failure can still remove.
absl::Status SyncNames(Files& files, const DataDirectory& directory);

// Whether the disk has space for new uploads: kLow if less than `minimum_free_percent` of the file
// system is free. After kLow (`before`) kOk needs 2 percent more, so that the state does not flap.
enum class DiskState { kOk, kLow };
DiskState JudgeDiskSpace(const Files::Space& space, DiskState before, uint32_t minimum_free_percent = 10);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_DATA_DIRECTORY_H_
