// SPDX-License-Identifier: Apache-2.0
// Incoming contributions, from the start of an upload to its acceptance. They are screened on the receiving
// threads, appended to the round log on the io executor, and accepted by one flush for all that arrive
// together. The core decides which uploads are granted; this class only executes the decision.
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

// The sender's side of one upload. Called on any thread; calls after Accepted or Refused are ignored.
class UploadSink {
 public:
  virtual ~UploadSink() = default;
  // Send the bytes from this offset on.
  virtual void Granted(uint64_t offset_bytes) = 0;
  // The contribution is durable; the conversation ends.
  virtual void Accepted() = 0;
  // The conversation ends with this status.
  virtual void Refused(const absl::Status& status) = 0;
};

// Calls RoundLog::Open. If the bytes of an existing segment cannot be flushed, also calls `fatal` (DataPlaneParts).
absl::Status OpenSegment(RoundLog& rounds, const RoundKey& key, Digest layout,
                         const std::function<void(const absl::Status&)>& fatal);

// The dependencies of Uploads. All outlive it.
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
  struct Upload {
    RoundKey key;
    ContributionHeader header;
    Digest layout;
    std::shared_ptr<ContributionScreener> screener;  // used by Append's caller, then by the io executor
    std::shared_ptr<UploadSink> sink;
  };

  explicit Uploads(UploadsParts parts) : parts_(std::move(parts)) {}
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;

  // ---- engine thread ----

  // Registers an upload. InvalidArgument: the fragment does not exist, or the size does not match it.
  // Unavailable: the job is being loaded. FailedPrecondition: the job is neither loaded nor expected.
  absl::Status Begin(UploadId upload, const ContributionHeader& header, std::shared_ptr<UploadSink> sink)
      ATOLL_EXCLUDES(mutex_);
  // Removes the upload and returns it. Null: it has ended before.
  std::shared_ptr<const Upload> End(UploadId upload) ATOLL_EXCLUDES(mutex_);
  // Posts the grant to the io executor: opens the segment and sends the sink the offset to start from, or a
  // refusal. While a snapshot of an earlier version of the fragment is being written, the grant waits, or the
  // log would outgrow its bound. `replaces`: the worker's contribution that the screens refused; zero: none.
  void Grant(UploadId upload, Digest replaces);
  // Writes the acceptance -> ContributionDurable. Those that arrive while the disk is busy are flushed together.
  void FlushAcceptance(UploadId upload) ATOLL_EXCLUDES(mutex_);

  // ---- thread-safe, except for calls of one upload ----

  // Screens on the caller's thread, in parallel with other uploads; then appends and replies on the io executor.
  void Append(UploadId upload, uint64_t offset_bytes, BulkBytes bytes, StatusReply reply) ATOLL_EXCLUDES(mutex_);
  // All bytes have arrived: checks the digest -> UploadFinished; an error is passed to `failed`.
  void Finish(UploadId upload, StatusReply failed) ATOLL_EXCLUDES(mutex_);

 private:
  // Bytes in flight to the io executor, in a reusable slot: a closure of more than two words would
  // allocate each time.
  struct Arrived {
    UploadId upload = 0;
    uint64_t offset_bytes = 0;
    BulkBytes bytes;
    StatusReply reply;
  };
  absl::StatusOr<std::shared_ptr<const Upload>> Find(UploadId upload) const ATOLL_EXCLUDES(mutex_);
  Arrived* TakePlace() ATOLL_EXCLUDES(mutex_);
  // io executor
  void GrantNow(UploadId upload, Digest replaces);
  void AppendNow(Arrived* place) ATOLL_EXCLUDES(mutex_);
  void FlushAcceptances(const RoundKey& key) ATOLL_EXCLUDES(mutex_);
  // Keeps the screening result of the arrived bytes for the round that will merge them.
  void KeepScreen(const Upload& upload);

  const UploadsParts parts_;
  mutable Mutex mutex_;
  std::map<UploadId, std::shared_ptr<const Upload>> uploads_ ATOLL_GUARDED_BY(mutex_);
  std::map<RoundKey, std::vector<std::pair<UploadId, WorkerId>>> to_accept_ ATOLL_GUARDED_BY(mutex_);
  // All slots: the largest number ever in flight, at most kUploadCredits per upload. Then the free slots.
  std::vector<std::unique_ptr<Arrived>> places_ ATOLL_GUARDED_BY(mutex_);
  std::vector<Arrived*> free_places_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_UPLOADS_H_
