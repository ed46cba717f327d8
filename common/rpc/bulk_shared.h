// SPDX-License-Identifier: Apache-2.0
// State shared by the calls of one bulk service, and the watchdog for a peer's progress. Only for
// bulk_service.cc and bulk_download.cc.
#ifndef ATOLL_COMMON_RPC_BULK_SHARED_H_
#define ATOLL_COMMON_RPC_BULK_SHARED_H_

#include <functional>
#include <utility>

#include "common/base/executor.h"
#include "common/base/time.h"
#include "common/plan/limits.h"
#include "common/rpc/bulk.h"
#include "common/rpc/bulk_service.h"
#include "common/rpc/download_turns.h"
#include "common/rpc/receiver_buckets.h"
#include "common/rpc/timer.h"
#include "common/rpc/token_bucket.h"

namespace atl {

// Shared state of one service.
struct BulkShared {
  static constexpr size_t kOpensAtOnce = 2;  // the handler opens sources on an executor that others need too
  BulkShared(BulkHandler& h, Executor& r, const Clock& k, const BulkServiceOptions& o)
      : handler(h),
        reads(r),
        clock(k),
        options(o),
        bucket(o.download_bytes_per_second, k),
        receivers(k, limits::kWorkers),
        turns(kDownloadsPerConnection, o.reads_at_once),
        opens(kDownloadsPerConnection, kOpensAtOnce) {}
  BulkHandler& handler;
  Executor& reads;
  const Clock& clock;
  const BulkServiceOptions options;
  SharedBucket bucket;  // over all downloads
  ReceiverBuckets receivers;
  DownloadTurns turns;  // turns to read
  DownloadTurns opens;  // turns to open a source in the handler
};

// Detects a transfer without progress: Progress was not called for `limit`. Used on the owner's
// strand only.
class Watchdog {
 public:
  Watchdog(const Clock& clock, Duration limit) : clock_(clock), limit_(limit), last_(clock.Now()) {}
  void Progress() { last_ = clock_.Now(); }
  // `check` must post to the owner's strand and call Check there.
  void Start(std::function<void()> check) {
    check_ = std::move(check);
    timer_.Set(limit_, check_);
  }
  // True when Progress was not called for `limit`. Otherwise sets the timer again, unless Stop was called.
  bool Check() {
    const Duration silent = clock_.Now() - last_;
    if (silent >= limit_) return true;
    if (check_) timer_.Set(limit_ - silent, check_);
    return false;
  }
  void Stop() {
    check_ = nullptr;
    timer_.Cancel();
  }

 private:
  const Clock& clock_;
  const Duration limit_;
  Instant last_;
  std::function<void()> check_;
  Timer timer_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_BULK_SHARED_H_
