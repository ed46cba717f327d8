// SPDX-License-Identifier: Apache-2.0
// Snapshots of fragments (public copy, momentum, residual), and checkpoints, which consist of
// snapshots. Files are immutable and written as: temporary file, fsync, rename, fsync of the
// directory (docs/formats/snapshot.md). A checkpoint is a directory of hard links and a manifest.
// The manifest is written last; a directory without one is not a checkpoint. Thread rule:
// thread-safe for different keys; the engine uses one serial executor for bulk I/O. SnapshotReader
// may be read on any thread.
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
#include "coordinator/store/file_by_path.h"
#include "coordinator/store/state_shot.h"

namespace atl {

constexpr uint32_t kSnapshotRevision = 1;

struct LoadedSnapshot {
  SnapshotHeader header;
  std::vector<float> public_copy, momentum, residual;
};

// The public copy of a snapshot as bytes (little-endian fp32), for downloads. Holds no open file: ReadAt is NotFound
// after the snapshot was dropped, Aborted after another one took its path (a checkpoint's step again). Thread-safe.
class SnapshotReader {
 public:
  SnapshotReader(FileByPath file, SnapshotHeader header, uint64_t public_offset);
  const SnapshotHeader& header() const { return header_; }
  uint64_t size_bytes() const { return header_.elements * sizeof(float); }
  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const;

 private:
  const FileByPath file_;
  const SnapshotHeader header_;
  const uint64_t public_offset_;
};

class SnapshotStore {
 public:
  SnapshotStore(Files& files, DataDirectory directory, BootNumber boot);

  // Writes a snapshot. `hash` is the ContentHash of the public copy. Idempotent: an existing file
  // is kept if its header is valid and has the same hash and layout. Releases each written part of
  // `state` (StateShot::Passed), so a StateShot can be written once only. The digests of momentum
  // and residual are those of the written bytes. Empty arrays at the end become a hole in the file.
  absl::Status Write(const SnapshotKey& key, StateShot& state, Digest hash, Digest layout);
  // For arrays that do not change during the call.
  absl::Status Write(const SnapshotKey& key, const FragmentArrays& arrays, Digest hash, Digest layout);
  // Reads and verifies the whole file. NotFound: missing. DataLoss: damaged; the message has the
  // path and the damaged part. FailedPrecondition: a newer revision or another layout.
  absl::StatusOr<LoadedSnapshot> Load(const SnapshotKey& key, Digest layout) const;
  absl::StatusOr<std::shared_ptr<SnapshotReader>> OpenReader(const SnapshotKey& key) const;
  // Versions on disk, ascending.
  absl::StatusOr<std::vector<Version>> List(const JobId& job, uint64_t epoch, FragmentIndex fragment) const;
  // The newest version that is at most `at_most`, if there is one.
  absl::StatusOr<std::optional<Version>> NewestUpTo(const JobId& job, uint64_t epoch, FragmentIndex fragment,
                                                    Version at_most) const;
  // Removes files that were incomplete when a process died. Must not overlap with Write.
  absl::Status DropUnfinished(const JobId& job, uint64_t epoch, FragmentIndex fragment);
  // Unlinks snapshots below `keep_from` except `pinned`. With `keep_first` the lowest snapshot
  // stays too, because kept rounds are recomputed from it. Links of checkpoints stay.
  absl::Status DropBefore(const JobId& job, uint64_t epoch, FragmentIndex fragment, Version keep_from,
                          bool keep_first = false, std::optional<Version> pinned = {});
  // Unlinks snapshots of epochs below `epoch`, incomplete ones too, at most `most` files. True when
  // all of them are removed. Links of checkpoints stay.
  absl::StatusOr<bool> DropEpochsBefore(const JobId& job, uint64_t epoch, size_t most);

  // Links the snapshots of `record.versions` in `epoch`, which must exist, into the checkpoint's
  // directory and writes the manifest. Idempotent.
  absl::Status WriteCheckpoint(const CheckpointRecord& record, uint64_t epoch);
  // The manifest as a record. NotFound: no checkpoint, or an incomplete one.
  absl::StatusOr<CheckpointRecord> ReadCheckpoint(const JobId& job, uint64_t step) const;
  // Reads and verifies one fragment of a checkpoint, with its outer state. Errors are those of Load.
  absl::StatusOr<LoadedSnapshot> LoadCheckpointFragment(const JobId& job, uint64_t step, FragmentIndex fragment,
                                                        Digest layout) const;
  // Verifies the file that LoadCheckpointFragment reads, piece by piece, with 256 KiB of memory.
  absl::StatusOr<SnapshotHeader> CheckCheckpointFragment(const JobId& job, uint64_t step, FragmentIndex fragment,
                                                         Digest layout) const;
  absl::StatusOr<std::shared_ptr<SnapshotReader>> OpenCheckpointReader(const JobId& job, uint64_t step,
                                                                       FragmentIndex fragment) const;
  // Removes the manifest, then the links. OK if the checkpoint does not exist.
  absl::Status DropCheckpoint(const JobId& job, uint64_t step);
  // Removes every checkpoint whose step is not in `known`: a process died before it had removed them.
  // Keeps the checkpoints that are newer than a ledger with these `epoch` and `heads`, because such a
  // ledger is an older copy and cannot have dropped them. Returns the steps kept for that reason.
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
