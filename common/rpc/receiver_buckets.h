// SPDX-License-Identifier: Apache-2.0
// Rate caps requested by receivers and enforced by the sender: one bucket for each receiver, over
// all of its calls.
#ifndef ATOLL_COMMON_RPC_RECEIVER_BUCKETS_H_
#define ATOLL_COMMON_RPC_RECEIVER_BUCKETS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/time.h"
#include "common/rpc/token_bucket.h"

namespace atl {

// Thread-safe. Remembers at most `most` receivers. Beyond that, the bucket of an idle receiver is
// dropped. When all receivers are active, a new receiver gets a bucket for that call only.
class ReceiverBuckets {
 public:
  ReceiverBuckets(const Clock& clock, size_t most) : clock_(clock), most_(most) {}
  // Returns the bucket shared by all sends to `receiver`, also after a pause. A new rate makes a new bucket;
  // sends in progress keep the old one. Null when the rate is 0 (no cap) or the receiver has no name.
  std::shared_ptr<SharedBucket> Of(const WorkerId& receiver, uint64_t bytes_per_second) ATOLL_EXCLUDES(mutex_);
  size_t remembered() const ATOLL_EXCLUDES(mutex_);

 private:
  const Clock& clock_;
  const size_t most_;
  mutable Mutex mutex_;
  std::map<WorkerId, std::shared_ptr<SharedBucket>> buckets_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_RECEIVER_BUCKETS_H_
