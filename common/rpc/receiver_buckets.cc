// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/receiver_buckets.h"

#include <algorithm>

namespace atl {

std::shared_ptr<SharedBucket> ReceiverBuckets::Of(const WorkerId& receiver, uint64_t bytes_per_second) {
  if (bytes_per_second == 0 || receiver.value.empty()) return nullptr;
  MutexLock lock(mutex_);
  const auto known = buckets_.find(receiver);
  if (known != buckets_.end() && known->second->rate_bytes_per_second() == bytes_per_second) return known->second;
  auto made = std::make_shared<SharedBucket>(bytes_per_second, clock_);
  if (known == buckets_.end() && buckets_.size() >= most_) {
    const auto idle =
        std::find_if(buckets_.begin(), buckets_.end(), [](const auto& entry) { return entry.second.use_count() == 1; });
    if (idle == buckets_.end()) return made;
    buckets_.erase(idle);
  }
  buckets_[receiver] = made;
  return made;
}

size_t ReceiverBuckets::remembered() const {
  MutexLock lock(mutex_);
  return buckets_.size();
}

}  // namespace atl
