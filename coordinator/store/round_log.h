// SPDX-License-Identifier: Apache-2.0
// The round log: one segment file for each (job, epoch, fragment, version), to which contributions are appended frame
// by frame as they arrive, each ended by an *accepted* trailer, then the encoded update (docs/formats/round-log.md).
//
// What holds: the trailer, once flushed, is the acceptance. A record is length, type, sequence, boot number, flushed
// length, CRC-32C and the hash of the record before. Crash cases: a torn tail is cut at the next open and everything
// before it stands; unaccepted bytes before the tear are the verified prefix that a sender resumes from; damage below a
// length that a later record knows to be flushed is DataLoss with the offset, never skipped. Opening is idempotent
// (I26). A failed flush ends the process (I24); a failed append is cut off again and reported, so that a full disk
// refuses an upload and loses nothing. Thread rule: thread-safe; calls for one segment wait for each other. All but
// VerifiedPrefix may block on the disk.
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
  uint64_t cut_bytes = 0;  // that were behind what was whole when it was opened
};

class RoundLog {
 public:
  // `files` must outlive the log. `secret`: random bits that no worker knows; the sequences of new segments start where
  // they say, so that no payload can hold what looks like a record of its own segment.
  RoundLog(Files& files, DataDirectory directory, BootNumber boot, uint64_t secret);
  ~RoundLog();
  RoundLog(const RoundLog&) = delete;
  RoundLog& operator=(const RoundLog&) = delete;

  // Makes the segment durable in its directory, or opens and scans the one that is there. Needed before other calls on
  // the key. DataLoss: damaged in the middle. FailedPrecondition: newer revision, or another layout. IsFailedFlush:
  // what is there may not be durable.
  absl::Status Open(const RoundKey& key, Digest layout) ATOLL_EXCLUDES(opening_, mutex_);
  // Of a committed round, to read from: nothing is made, cut off or added. DataLoss also when the file is not there.
  absl::Status OpenCommitted(const RoundKey& key, Digest layout) ATOLL_EXCLUDES(opening_, mutex_);

  // Flushes an open segment, to which a process that was killed may have written what it did not flush. A failure ends
  // the process (I24).
  absl::Status MakeDurable(const RoundKey& key) const;

  // Begins or resumes a contribution; returns the length of the verified prefix, which is encoded_bytes when only the
  // trailer is missing or it is accepted already. An unaccepted one of the same worker with another digest is replaced,
  // and so is an accepted one with the digest `refused`, which the screens have left out of the round. AlreadyExists:
  // the worker has another accepted one. FailedPrecondition: it has begun anew so often that the log has taken more of
  // it than a round may (round_segment.h); the same for Append.
  absl::StatusOr<uint64_t> Begin(const RoundKey& key, const ContributionHeader& header, Digest refused = {});
  // 0 when nothing of that digest is there. OK for a key that is not open.
  uint64_t VerifiedPrefix(const RoundKey& key, const WorkerId& worker, Digest digest) const;
  // Appends the next bytes (the pieces in order, at most limits::kMessageBytes in all). OutOfRange unless `offset` is
  // the length so far and the end is within encoded_bytes. ResourceExhausted: disk full; the segment is as before.
  absl::Status Append(const RoundKey& key, const WorkerId& worker, uint64_t offset, std::span<const Bytes> pieces);
  // OK when all bytes are there and have the digest announced. DataLoss otherwise: the bytes are then discarded, so
  // that the sender begins anew.
  absl::Status CheckComplete(const RoundKey& key, const WorkerId& worker);
  // Appends the trailers and flushes once. Implies CheckComplete. Idempotent. Where it fails, for want of room too,
  // none counts yet, and some may by the next start: the caller ends the process.
  absl::Status Accept(const RoundKey& key, std::span<const WorkerId> workers, int64_t wall_nanos);
  absl::Status Accept(const RoundKey& key, const WorkerId& worker, int64_t wall_nanos) {
    return Accept(key, std::span(&worker, 1), wall_nanos);
  }
  // Forgets an unaccepted contribution.
  void Abandon(const RoundKey& key, const WorkerId& worker);

  // The encoded bytes of an accepted contribution, checked again against its digest. NotFound, DataLoss. They are
  // returned in `buffer`, whose memory is used again.
  absl::StatusOr<std::vector<std::byte>> ReadContribution(const RoundKey& key, const WorkerId& worker,
                                                          std::vector<std::byte> buffer = {}) const;
  // Appends the encoded update and flushes. Replaces an earlier one of an uncommitted attempt. Internal when the bytes
  // do not have the size of `info`. Its digest is stored as it was given: taken when the bytes were made, so that what
  // damages them on the way here is found by whoever reads them.
  absl::Status WriteUpdate(const RoundKey& key, const UpdateInfo& info, Bytes encoded);
  // Of an open segment. NotFound when there is none.
  absl::StatusOr<UpdateInfo> FindUpdate(const RoundKey& key) const;
  // The encoded update, to be served; the segment need not be open. Found and checked the first time; whoever reads it
  // at a time shares one open file. Also one that was kept of a segment that is dropped. NotFound when there is no such
  // segment or no update in it; DataLoss; as Open.
  absl::StatusOr<std::shared_ptr<const UpdateReader>> OpenUpdate(const RoundKey& key, Digest layout)
      ATOLL_EXCLUDES(mutex_);

  // Of an open segment. NotFound when it is not open.
  absl::StatusOr<SegmentInfo> Info(const RoundKey& key) const;
  // Closes the file of a segment; Open brings it back. Its pages leave the page cache, so that the next round's take
  // their place: pages that nobody used for a while cost a virtual machine several times as much as those.
  void Close(const RoundKey& key);
  // Versions with a segment on disk, ascending.
  absl::StatusOr<std::vector<Version>> List(const JobId& job, uint64_t epoch, FragmentIndex fragment) const;
  // Unlinks segments whose version is below `keep_from`; returns the bytes freed. The encoded updates of those from
  // `updates_from` on stay, where the disk lets them, and no others.
  absl::StatusOr<uint64_t> DropBefore(const JobId& job, uint64_t epoch, FragmentIndex fragment, Version keep_from,
                                      std::optional<Version> updates_from = {});
  // Whether OpenUpdate has something to look at.
  bool HasUpdate(const RoundKey& key) const;
  absl::Status Drop(const RoundKey& key);
  // Closes and unlinks the segments of epochs below `epoch`, at most `most` files; whether all of them are gone.
  absl::StatusOr<bool> DropEpochsBefore(const JobId& job, uint64_t epoch, size_t most = SIZE_MAX);

 private:
  absl::StatusOr<std::shared_ptr<RoundSegment>> Find(const RoundKey& key) const ATOLL_EXCLUDES(mutex_);
  // Checks an open segment; whether there is one.
  absl::StatusOr<bool> FindSame(const RoundKey& key, Digest layout) const ATOLL_EXCLUDES(mutex_);
  std::shared_ptr<RoundSegment> Take(const RoundKey& key) ATOLL_EXCLUDES(mutex_);
  // Where the update of a segment lies, once it was looked for.
  struct KnownUpdate {
    UpdateInfo info;
    uint64_t file_offset = 0;
    std::weak_ptr<const UpdateReader> reader;
  };
  // kept_updates.cc
  absl::Status KeepUpdate(const RoundKey& key);
  absl::Status DropKeptUpdates(const JobId& job, uint64_t epoch, FragmentIndex fragment, Version keep_from)
      ATOLL_EXCLUDES(mutex_);
  // update_reader.cc
  absl::StatusOr<std::shared_ptr<const UpdateReader>> FindUpdateIn(std::unique_ptr<File> file, const std::string& path,
                                                                   const RoundKey& key, Digest layout) const;
  void ForgetUpdate(const RoundKey& key) ATOLL_EXCLUDES(mutex_);

  Files& files_;
  DataDirectory directory_;
  BootNumber boot_;
  const uint64_t secret_;
  // Held while a segment is opened, so that two threads do not both begin one; before mutex_ and a segment's.
  Mutex opening_;
  mutable Mutex mutex_;
  std::map<RoundKey, std::shared_ptr<RoundSegment>> open_ ATOLL_GUARDED_BY(mutex_);
  std::map<RoundKey, KnownUpdate> updates_ ATOLL_GUARDED_BY(mutex_);  // as many as update_reader.cc says
};

// Whether RoundLog::Open could not flush the segment that it found. Once a process has begun its work that must end it
// (I24): the next try would be told nothing, and count as durable what may be lost.
bool IsFailedFlush(const absl::Status& opened);

// For each job named in `layouts` (the digest of its model layout): opens the segment of every head that is on disk and
// puts the accepted headers into `state`, by fragment, then worker name. Gives the jobs of which one cannot be used,
// and why: nothing is added to those. `cut` hears of each segment that was cut to what is whole.
std::map<JobId, std::string> AddAccepted(RoundLog& log, const std::map<JobId, Digest>& layouts, RecoveredState& state,
                                         std::vector<DamagedRound>* cut = nullptr);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_STORE_ROUND_LOG_H_
