// SPDX-License-Identifier: Apache-2.0
// Snapshots of fragments (public copy, momentum, residual) and checkpoints made of them. Files are immutable: temp,
// fsync, rename, fsync of the directory (docs/formats/snapshot.md). A checkpoint is a directory of hard links and a
// manifest that is written last: without it the directory does not count. Thread rule: thread-safe for different keys;
// the engine uses one serial executor for bulk I/O. Reads of SnapshotReader may run on any thread.
#ifndef ATOLL_COORDINATOR_STORE_SNAPSHOT_STORE_H_
#define ATOLL_COORDINATOR_STORE_SNAPSHOT_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/plan/records.h"
#include "common/wire/record_messages.h"
#include "coordinator/store/data_directory.h"
#include "coordinator/store/state_shot.h"

namespace atl {

constexpr uint32_t kSnapshotRevision = 1;

struct LoadedSnapshot {
  SnapshotHeader header;
  std::vector<float> public_copy, momentum, residual;
};

// The public copy of a snapshot as bytes (little-endian fp32), for downloads. An open reader is a pin: the file stays
// readable after it was dropped. ReadAt may run beside other ReadAt calls.
class SnapshotReader {
 public:
  SnapshotReader(std::unique_ptr<File> file, SnapshotHeader header, uint64_t public_offset);
  const SnapshotHeader& header() const { return header_; }
  uint64_t size_bytes() const { return header_.elements * sizeof(float); }
  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const;

 private:
  std::unique_ptr<File> file_;
  SnapshotHeader header_;
  uint64_t public_offset_;
};

class SnapshotStore {
 public:
  SnapshotStore(Files& files, DataDirectory directory, BootNumber boot);

  // `hash` is the ContentHash of the public copy. Idempotent: an existing valid file with the same hash stands. Passes
  // what is written of `state`, so that it cannot be written twice. The digests of momentum and residual are of what
  // was written; arrays at the end that are empty are a hole of the file.
  absl::Status Write(const SnapshotKey& key, StateShot& state, Digest hash, Digest layout);
  // Of arrays that lie still.
  absl::Status Write(const SnapshotKey& key, const FragmentArrays& arrays, Digest hash, Digest layout);
  // Reads and verifies everything. NotFound; DataLoss with the path and what does not agree; FailedPrecondition: newer
  // revision, or another layout.
  absl::StatusOr<LoadedSnapshot> Load(const SnapshotKey& key, Digest layout) const;
  absl::StatusOr<std::shared_ptr<SnapshotReader>> OpenReader(const SnapshotKey& key) const;
  // Versions on disk, ascending.
  absl::StatusOr<std::vector<Version>> List(const JobId& job, uint64_t epoch, FragmentIndex fragment) const;
  // The newest at or below `at_most`; nothing when there is none.
  absl::StatusOr<std::optional<Version>> NewestUpTo(const JobId& job, uint64_t epoch, FragmentIndex fragment,
                                                    Version at_most) const;
  // Files that a crash left half written. No write may be under way.
  absl::Status DropUnfinished(const JobId& job, uint64_t epoch, FragmentIndex fragment);
  // Unlinks snapshots below `keep_from`, with `keep_first` all but the lowest: the one that kept rounds are recomputed
  // from; and not that of `pinned`. Links of checkpoints stay.
  absl::Status DropBefore(const JobId& job, uint64_t epoch, FragmentIndex fragment, Version keep_from,
                          bool keep_first = false, std::optional<Version> pinned = {});
  // Unlinks snapshots of epochs below `epoch`, half-written ones too, at most `most`; whether all of them are gone.
  // Links of checkpoints stay.
  absl::StatusOr<bool> DropEpochsBefore(const JobId& job, uint64_t epoch, size_t most);

  // Links the snapshots of `record.versions` in `epoch` (which must be there) and writes the manifest. Idempotent.
  absl::Status WriteCheckpoint(const CheckpointRecord& record, uint64_t epoch);
  // The manifest. NotFound when absent or incomplete.
  absl::StatusOr<CheckpointRecord> ReadCheckpoint(const JobId& job, uint64_t step) const;
  // One fragment with its outer state, verified.
  absl::StatusOr<LoadedSnapshot> LoadCheckpointFragment(const JobId& job, uint64_t step, FragmentIndex fragment,
                                                        Digest layout) const;
  // The same checks, piece by piece: memory for 256 KiB of it.
  absl::StatusOr<SnapshotHeader> CheckCheckpointFragment(const JobId& job, uint64_t step, FragmentIndex fragment,
                                                         Digest layout) const;
  absl::StatusOr<std::shared_ptr<SnapshotReader>> OpenCheckpointReader(const JobId& job, uint64_t step,
                                                                       FragmentIndex fragment) const;
  // Manifest first, then the links. OK when absent.
  absl::Status DropCheckpoint(const JobId& job, uint64_t step);
  // The same of every step that is not in `known`: a process died before it had removed them. What a ledger with these
  // epoch and heads cannot have dropped stays, since it is an older copy than the files; gives those steps.
  absl::StatusOr<std::vector<uint64_t>> DropCheckpointsBut(const std::set<uint64_t>& known, const JobId& job,
                                                           uint64_t epoch, const VersionVector& heads);

 private:
  absl::StatusOr<LoadedSnapshot> LoadFile(const std::string& path, Digest layout) const;
  absl::StatusOr<std::shared_ptr<SnapshotReader>> OpenFile(const std::string& path) const;
  absl::StatusOr<CheckpointManifest> ReadManifest(const JobId& job, uint64_t step) const;
  Files& files_;
  DataDirectory directory_;
  BootNumber boot_;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_SNAPSHOT_STORE_H_
