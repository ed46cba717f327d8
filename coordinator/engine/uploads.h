// SPDX-License-Identifier: Apache-2.0
// Contributions on their way in, from the beginning of an upload to its acceptance: screened in the threads that
// receive them, appended to the round log on the io executor, and accepted by one flush for those that come together.
// Who may upload what is the engine's decision; here are its hands.
#ifndef ATOLL_COORDINATOR_ENGINE_UPLOADS_H_
#define ATOLL_COORDINATOR_ENGINE_UPLOADS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "common/plan/records.h"
#include "common/rpc/bulk.h"
#include "common/wire/record_messages.h"
#include "coordinator/aggregate/contribution_screener.h"
#include "coordinator/core/events.h"
#include "coordinator/engine/loaded_jobs.h"
#include "coordinator/store/round_log.h"

namespace atl {

// The sender's side of an upload conversation. Called on any thread, never concurrently for one upload.
class UploadSink {
 public:
  virtual ~UploadSink() = default;
  // Send the bytes from this offset on.
  virtual void Granted(uint64_t offset_bytes) = 0;
  // Durable; the conversation ends.
  virtual void Accepted() = 0;
  // The conversation ends with this status.
  virtual void Refused(const absl::Status& status) = 0;
};

// RoundLog::Open; where it cannot flush what is there the process ends: `fatal` as in DataPlaneParts.
absl::Status OpenSegment(RoundLog& rounds, const RoundKey& key, Digest layout,
                         const std::function<void(const absl::Status&)>& fatal);

// Everything it stands on; all outlive it.
struct UploadsParts {
  Clock& clock;
  Executor& io;
  RoundLog& rounds;
  const LoadedJobs& jobs;
  std::function<void(Event)> emit;                 // thread-safe
  std::function<void(const absl::Status&)> fatal;  // as in DataPlaneParts
};

class Uploads {
 public:
  explicit Uploads(UploadsParts parts) : parts_(std::move(parts)) {}
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;

  // ---- engine thread ----

  // Registers an upload. InvalidArgument when its size is not what the fragment takes; Unavailable while the job is
  // being loaded, FailedPrecondition where it is neither loaded nor expected.
  absl::Status Begin(UploadId upload, const ContributionHeader& header) ATOLL_EXCLUDES(mutex_);
  // Opens the segment and tells the sink from which offset to send: at once, but of a fragment whose snapshot is being
  // written for one round beside that at most, or the log would outgrow its bound.
  // `replaces`: UploadVerdict's.
  void Grant(UploadId upload, std::shared_ptr<UploadSink> sink, Digest replaces);
  // -> ContributionDurable. Those of a round that come while the disk is busy are flushed together.
  void FlushAcceptance(UploadId upload) ATOLL_EXCLUDES(mutex_);

  // ---- thread-safe, but for calls of one upload ----

  // Screened in the caller's thread, side by side with other uploads; `reply` runs on the io executor.
  void Append(UploadId upload, uint64_t offset_bytes, BulkBytes bytes, StatusReply reply) ATOLL_EXCLUDES(mutex_);
  // All bytes are there: checks the digest -> UploadFinished; an error goes to `failed`.
  void Finish(UploadId upload, StatusReply failed) ATOLL_EXCLUDES(mutex_);
  void End(UploadId upload) ATOLL_EXCLUDES(mutex_);

 private:
  struct Upload {
    RoundKey key;
    ContributionHeader header;
    Digest layout;
    std::shared_ptr<ContributionScreener> screener;  // the caller's of Append, then the io executor's
  };
  // Bytes on their way to the io executor, in a place that the next ones use again: a job of more than two words takes
  // memory each time.
  struct Arrived {
    UploadId upload = 0;
    uint64_t offset_bytes = 0;
    BulkBytes bytes;
    StatusReply reply;
  };
  absl::StatusOr<std::shared_ptr<const Upload>> Find(UploadId upload) const ATOLL_EXCLUDES(mutex_);
  Arrived* TakePlace() ATOLL_EXCLUDES(mutex_);
  // io executor
  void GrantNow(UploadId upload, std::shared_ptr<UploadSink> sink, Digest replaces);
  void AppendNow(Arrived* place) ATOLL_EXCLUDES(mutex_);
  void FlushAcceptances(const RoundKey& key) ATOLL_EXCLUDES(mutex_);
  // What the arrived bytes said by themselves, for the round that will merge them.
  void KeepScreen(const Upload& upload);

  const UploadsParts parts_;
  mutable Mutex mutex_;
  std::map<UploadId, std::shared_ptr<const Upload>> uploads_ ATOLL_GUARDED_BY(mutex_);
  std::map<RoundKey, std::vector<std::pair<UploadId, WorkerId>>> to_accept_ ATOLL_GUARDED_BY(mutex_);
  // As many as ever were on their way at once, kUploadCredits an upload at most; and those of them that are free.
  std::vector<std::unique_ptr<Arrived>> places_ ATOLL_GUARDED_BY(mutex_);
  std::vector<Arrived*> free_places_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_UPLOADS_H_
