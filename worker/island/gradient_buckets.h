// SPDX-License-Identifier: Apache-2.0
// Gradients exchanged while others are still computed: ranges of the gradient arena are reduced, in buckets and in an
// order that is the same on every rank, by a thread of their own, as soon as the backward pass is through with them.
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
  // `ranges` cover the arena once, in the order in which they are expected to be ready: the same on every rank. A
  // bucket is a run of them that is also contiguous in the arena, closed when it has `bucket_elements`. `island` and
  // `gradients` outlive the object, and nobody else uses the island between Begin and Finish.
  GradientBuckets(Island& island, std::span<float> gradients, const std::vector<GradientRange>& ranges,
                  uint64_t bucket_elements = uint64_t{1} << 20);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // The last backward pass of a step begins; no range is ready.
  void Begin() ATOLL_EXCLUDES(mutex_);
  // The range that begins at `offset` has this rank's last value, and stays untouched until Finish. Any thread.
  void Ready(uint64_t offset) ATOLL_EXCLUDES(mutex_);
  // Every range is ready. Returns when all hold the mean over ranks, or the first error of the island. By the thread
  // that uses the island otherwise.
  absl::Status Finish() ATOLL_EXCLUDES(mutex_);
  // The pass has failed, before its Begin or after: no further bucket is given to the island. True when none of it was:
  // then the pass can be taken again.
  bool Halt() ATOLL_EXCLUDES(mutex_);

  const std::vector<GradientRange>& buckets() const { return buckets_; }

 private:
  void Reduce() ATOLL_EXCLUDES(mutex_);

  Island& island_;
  const std::span<float> gradients_;
  std::vector<GradientRange> buckets_;
  std::vector<uint32_t> ranges_of_;         // of each bucket
  std::map<uint64_t, uint32_t> bucket_at_;  // by the offset of a range

  Mutex mutex_;
  CondVar changed_;
  std::vector<uint32_t> missing_ ATOLL_GUARDED_BY(mutex_);  // ranges of each bucket that are not ready
  size_t next_ ATOLL_GUARDED_BY(mutex_) = 0;                // bucket
  bool running_ ATOLL_GUARDED_BY(mutex_) = false;           // a bucket is being reduced
  bool sent_ ATOLL_GUARDED_BY(mutex_) = false;              // one was, of a pass that is not finished
  bool over_ ATOLL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ATOLL_GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace atl

#endif  // ATOLL_WORKER_ISLAND_GRADIENT_BUCKETS_H_
