// SPDX-License-Identifier: Apache-2.0
// The round log: one segment file for each (job, epoch, fragment, version). Contributions are
// appended frame by frame as they arrive, each followed by an *accepted* trailer; the encoded
// update follows them (docs/formats/round-log.md).
//
// Invariants: a contribution is accepted once its trailer is flushed. The header of a record has
// length, type, sequence, boot number, flushed length, CRC-32C and the hash of the previous header.
// Opening a segment is idempotent (I26).
//
// After a crash:
// - A torn tail is cut off at the next open, and every record before it is valid.
// - The bytes of an unaccepted contribution before the tear are the verified prefix from which its
//   sender resumes.
// - Damage below a length that a later record reports as flushed is DataLoss with the offset. It is
//   never skipped.
//
// Errors: after a failed flush the caller must end the process (I24). A failed append is cut off again and returned,
// so that a full disk refuses an upload and loses nothing. Thread rule: thread-safe; calls for one segment wait for
// each other, except for the reads of ReadContribution. Any call may block on the disk or for another call.
#ifndef ATOLL_COORDINATOR_STORE_ROUND_LOG_H_
#define ATOLL_COORDINATOR_STORE_ROUND_LOG_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/plan/records.h"
#include "common/wire/record_messages.h"
#include "coordinator/store/damaged_round.h"
#include "coordinator/store/data_directory.h"
#include "coordinator/store/update_reader.h"

namespace atl {

constexpr uint32_t kSegmentRevision = 1;

struct RoundSegment;  // round_segment.h

struct SegmentInfo {
  RoundKey key;
  std::vector<AcceptedRecord> accepted;  // by worker name
  bool has_update = false;
  UpdateInfo update;
  uint64_t file_bytes = 0;
  std::string path;
  uint64_t cut_bytes = 0;  // torn tail removed when the segment was opened
};

class RoundLog {
 public:
  // `files` must outlive the log. `secret`: random bits unknown to every worker. The sequence
  // numbers of new segments start at a value derived from it, so that no payload can contain bytes
  // that look like a record of its own segment.
  RoundLog(Files& files, DataDirectory directory, BootNumber boot, uint64_t secret);
  ~RoundLog();
  RoundLog(const RoundLog&) = delete;
  RoundLog& operator=(const RoundLog&) = delete;

  // Creates the segment durably, or opens an existing one, cuts off its torn tail and flushes it. Required
  // before most other calls. DataLoss: damaged in the middle. FailedPrecondition: a newer revision,
  // another layout, or records of a later boot. IsFailedFlush: the existing segment may not be durable.
  absl::Status Open(const RoundKey& key, Digest layout) ATOLL_EXCLUDES(opening_, mutex_);
  // Opens the segment of a committed round for reading: creates, cuts, flushes and appends nothing.
  // Errors are those of Open; DataLoss also if the file is missing.
  absl::Status OpenCommitted(const RoundKey& key, Digest layout) ATOLL_EXCLUDES(opening_, mutex_);

  // Flushes an open segment, because a process that was killed may have left unflushed bytes in it.
  // After a failure the caller must end the process (I24).
  absl::Status MakeDurable(const RoundKey& key) const;

  // Begins or resumes a contribution. Returns the length of the verified prefix: encoded_bytes if
  // only the trailer is missing or the contribution is accepted. An unaccepted contribution of the
  // same worker with another digest is replaced; so is an accepted one with the digest `refused`,
  // which the screens have excluded from the round. AlreadyExists: the worker has another accepted
  // contribution. FailedPrecondition, also from Append: the worker has restarted so often, or sent
  // such small pieces, that it has used its share of the file (kTakenFactor in round_segment.h).
  absl::StatusOr<uint64_t> Begin(const RoundKey& key, const ContributionHeader& header, Digest refused = {});
  // The stored bytes of the worker's contribution with this digest; 0 if there is none, or if `key` is not open.
  uint64_t VerifiedPrefix(const RoundKey& key, const WorkerId& worker, Digest digest) const;
  // Appends `pieces` in order, at most limits::kMessageBytes in all, to a contribution that is not
  // accepted. OutOfRange unless `offset` is the current length and the end is within encoded_bytes.
  // NotFound: Begin was not called. ResourceExhausted: the disk is full, and the segment is unchanged.
  absl::Status Append(const RoundKey& key, const WorkerId& worker, uint64_t offset, std::span<const Bytes> pieces);
  // OK if all bytes have arrived and have the announced digest. FailedPrecondition: bytes are
  // missing. DataLoss: another digest; the bytes are discarded and the sender starts again.
  absl::Status CheckComplete(const RoundKey& key, const WorkerId& worker);
  // Calls CheckComplete for each worker, appends the trailers and flushes once. Idempotent. After
  // an error, also on a full disk, this call has accepted none of them, but some of them may be
  // accepted at the next start: the caller must end the process.
  absl::Status Accept(const RoundKey& key, std::span<const WorkerId> workers, int64_t wall_nanos);
  absl::Status Accept(const RoundKey& key, const WorkerId& worker, int64_t wall_nanos) {
    return Accept(key, std::span(&worker, 1), wall_nanos);
  }

  // The encoded bytes of an accepted contribution, read and verified against its digest. NotFound: no
  // such contribution is accepted. DataLoss: damaged. Reuses the memory of `buffer` for the result.
  absl::StatusOr<std::vector<std::byte>> ReadContribution(const RoundKey& key, const WorkerId& worker,
                                                          std::vector<std::byte> buffer = {}) const;
  // Appends the encoded update and flushes. Replaces the update of an earlier attempt that was not
  // committed. Internal: the size differs from `info`. The digest in `info` is stored unchanged; it
  // was computed when the bytes were made, so that a reader finds damage that happened before this
  // call.
  absl::Status WriteUpdate(const RoundKey& key, const UpdateInfo& info, Bytes encoded);
  // The update of an open segment. NotFound if it has none.
  absl::StatusOr<UpdateInfo> FindUpdate(const RoundKey& key) const;
  // Finds the encoded update for downloads, in the segment, which need not be open, or as it was kept when
  // its segment was dropped. Verifies the update, unless the reader of an earlier call is remembered.
  // NotFound: no such file, or no update in it. DataLoss: damaged. Other errors are those of Open.
  absl::StatusOr<std::shared_ptr<const UpdateReader>> OpenUpdate(const RoundKey& key, Digest layout)
      ATOLL_EXCLUDES(mutex_);

  // NotFound if the segment is not open.
  absl::StatusOr<SegmentInfo> Info(const RoundKey& key) const;
  // Closes the file of a segment; Open opens it again.
  void Close(const RoundKey& key);
  // Versions with a segment on disk, ascending.
  absl::StatusOr<std::vector<Version>> List(const JobId& job, uint64_t epoch, FragmentIndex fragment) const;
  // Unlinks the segments with a version below `keep_from`, and returns their bytes. Their updates from version
  // `updates_from` on stay as files of their own, if the disk has space; older updates kept so are deleted.
  absl::StatusOr<uint64_t> DropBefore(const JobId& job, uint64_t epoch, FragmentIndex fragment, Version keep_from,
                                      std::optional<Version> updates_from = {});
  // Whether a file exists in which OpenUpdate can look for the update.
  bool HasUpdate(const RoundKey& key) const;
  absl::Status Drop(const RoundKey& key);
  // Closes and unlinks the segments of epochs below `epoch` and their kept updates, in this call at
  // most `most` files. True when all of them are removed; false: call again.
  absl::StatusOr<bool> DropEpochsBefore(const JobId& job, uint64_t epoch, size_t most = SIZE_MAX);

 private:
  absl::StatusOr<std::shared_ptr<RoundSegment>> Find(const RoundKey& key) const ATOLL_EXCLUDES(mutex_);
  // True if the segment is open; an error if the open segment has another layout.
  absl::StatusOr<bool> FindSame(const RoundKey& key, Digest layout) const ATOLL_EXCLUDES(mutex_);
  std::shared_ptr<RoundSegment> Take(const RoundKey& key) ATOLL_EXCLUDES(mutex_);
  // kept_updates.cc
  absl::Status KeepUpdate(const RoundKey& key);
  absl::Status DropKeptUpdates(const JobId& job, uint64_t epoch, FragmentIndex fragment, Version keep_from)
      ATOLL_EXCLUDES(mutex_);
  // update_reader.cc
  absl::StatusOr<std::shared_ptr<const UpdateReader>> FindUpdateOnDisk(const RoundKey& key, Digest layout) const;
  void ForgetUpdate(const RoundKey& key) ATOLL_EXCLUDES(mutex_);

  Files& files_;
  DataDirectory directory_;
  BootNumber boot_;
  const uint64_t secret_;
  // Held while a segment is opened, so that two threads do not both create it. Acquired before
  // mutex_ and before a segment's mutex.
  Mutex opening_;
  mutable Mutex mutex_;
  std::map<RoundKey, std::shared_ptr<RoundSegment>> open_ ATOLL_GUARDED_BY(mutex_);
  // At most kUpdatesKnown (update_reader.cc).
  std::map<RoundKey, std::shared_ptr<const UpdateReader>> updates_ ATOLL_GUARDED_BY(mutex_);
};

// Whether RoundLog::Open failed to flush an existing segment. A process that is already serving
// must then end (I24): the next flush would report no error although bytes may be lost.
bool IsFailedFlush(const absl::Status& opened);

// Opens the segment of the current version of every fragment of each job in `layouts` (digest of
// the model layout by job), if it is on disk. Adds the accepted headers to `state`, by fragment,
// then worker name. Returns the jobs with an unusable segment and the reason; nothing is added to
// these jobs. Each segment with a torn tail is appended to `cut`.
std::map<JobId, std::string> AddAccepted(RoundLog& log, const std::map<JobId, Digest>& layouts, RecoveredState& state,
                                         std::vector<DamagedRound>* cut = nullptr);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_ROUND_LOG_H_
