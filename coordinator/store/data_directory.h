// SPDX-License-Identifier: Apache-2.0
// Where things lie below the coordinator's data directory, and who may open it.
//
//   LOCK                                      held by the running coordinator (flock)
//   ledger.sqlite (-wal, -shm)                the ledger
//   blobs/aa/<sha256>                         files stored by content; <sha256>.part while incomplete
//   events/<job>.jsonl, events/_fleet.jsonl   event logs
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

// A round: the version it starts from, in one epoch of a job. Names a segment.
struct RoundKey {
  JobId job;
  uint64_t epoch = 0;
  FragmentVersion target;
  friend auto operator<=>(const RoundKey&, const RoundKey&) = default;
};
// A fragment at a version, in one epoch of a job. Names a snapshot.
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

// The right to be the only coordinator on a real directory; released by the destructor and by the death of the process.
class DirectoryLock {
 public:
  virtual ~DirectoryLock() = default;
};
// Makes the directory if needed, durably. FailedPrecondition, naming directory and process id of the holder, when it is
// held.
absl::StatusOr<std::unique_ptr<DirectoryLock>> LockDirectory(const DataDirectory& directory);

// Makes the state directory and what is missing above it, and flushes the directory that each of them lies in: a power
// cut must not take it away with all that is in it. Where it was there the one above it is flushed once more, since a
// process may have been killed in between; it need not be readable then.
absl::Status MakeDurableRoot(Files& files, const std::string& root);

// MakeDirectory, and flushes every directory from `path` up to `root`, so that the whole way is durable.
absl::Status MakeDurableDirectory(Files& files, const std::string& root, const std::string& path);

// Flushes every directory that names files of the formats. Once at start: a process that was killed between making a
// name and flushing its directory leaves a name that others see and that a power cut still takes away.
absl::Status SyncNames(Files& files, const DataDirectory& directory);

// Whether new uploads may be granted: below `minimum_free_percent` of the file system it says kLow, and only above that
// plus 2 kOk again, so that it does not flap.
enum class DiskState { kOk, kLow };
DiskState JudgeDiskSpace(const Files::Space& space, DiskState before, uint32_t minimum_free_percent = 10);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_DATA_DIRECTORY_H_
