// SPDX-License-Identifier: Apache-2.0
// Exchanges gradients while others are still being computed. A separate thread reduces ranges of the gradient
// arena, in buckets and in the same order on every rank, as soon as the backward pass has finished them.
#ifndef ATOLL_WORKER_ISLAND_GRADIENT_BUCKETS_H_
#define ATOLL_WORKER_ISLAND_GRADIENT_BUCKETS_H_

#include <cstdint>
#include <map>
#include <span>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "worker/device/island.h"

namespace atl {

struct GradientRange {
  uint64_t offset = 0, elements = 0;
};

class GradientBuckets {
 public:
  // `ranges` cover the arena once, in the order in which they are expected to become ready: the same on every rank. A
  // bucket is a run of ranges that is contiguous in the arena, closed once it has `bucket_elements` or more. `island`
  // and `gradients` outlive the object. Between Begin and Finish, only this object may use the island.
  GradientBuckets(Island& island, std::span<float> gradients, const std::vector<GradientRange>& ranges,
                  uint64_t bucket_elements = uint64_t{1} << 20);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // Call when the last backward pass of a step begins. No range is ready then.
  void Begin() ATOLL_EXCLUDES(mutex_);
  // The range at `offset` has its final value on this rank, and must not be touched until Finish. Any thread.
  void Ready(uint64_t offset) ATOLL_EXCLUDES(mutex_);
  // From now on every range counts as ready. Returns when all hold the mean over ranks, or with the
  // island's first error. Called on the thread that otherwise uses the island.
  absl::Status Finish() ATOLL_EXCLUDES(mutex_);
  // Call when the pass failed, before or after its Begin: gives no further bucket to the island,
  // and waits for a running one. True if none was given, so that the pass can be repeated.
  bool Halt() ATOLL_EXCLUDES(mutex_);

  const std::vector<GradientRange>& buckets() const { return buckets_; }

 private:
  void Reduce() ATOLL_EXCLUDES(mutex_);

  Island& island_;
  const std::span<float> gradients_;
  std::vector<GradientRange> buckets_;
  std::vector<uint32_t> ranges_of_;         // the number of ranges in each bucket
  std::map<uint64_t, uint32_t> bucket_at_;  // by the offset of a range

  Mutex mutex_;
  CondVar changed_;
  std::vector<uint32_t> missing_ ATOLL_GUARDED_BY(mutex_);  // the number of unready ranges in each bucket
  size_t next_ ATOLL_GUARDED_BY(mutex_) = 0;                // next bucket
  bool running_ ATOLL_GUARDED_BY(mutex_) = false;           // a bucket is being reduced
  bool sent_ ATOLL_GUARDED_BY(mutex_) = false;              // a bucket of the unfinished pass was given to the island
  bool over_ ATOLL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ATOLL_GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace atl

#endif  // ATOLL_WORKER_ISLAND_GRADIENT_BUCKETS_H_
