// SPDX-License-Identifier: Apache-2.0
#include "worker/island/gradient_buckets.h"

#include "common/base/check.h"

namespace atl {

GradientBuckets::GradientBuckets(Island& island, std::span<float> gradients, const std::vector<GradientRange>& ranges,
                                 uint64_t bucket_elements)
    : island_(island), gradients_(gradients) {
  uint64_t all = 0;
  for (const GradientRange& range : ranges) {
    all += range.elements;
    GradientRange* last = buckets_.empty() ? nullptr : &buckets_.back();
    const bool before = last != nullptr && range.offset + range.elements == last->offset;
    const bool after = last != nullptr && last->offset + last->elements == range.offset;
    if ((before || after) && last->elements < bucket_elements) {
      if (before) last->offset = range.offset;
      last->elements += range.elements;
      ++ranges_of_.back();
    } else {
      buckets_.push_back(range);
      ranges_of_.push_back(1);
    }
    bucket_at_[range.offset] = static_cast<uint32_t>(buckets_.size() - 1);
  }
  ATOLL_CHECK(all == gradients.size() && bucket_at_.size() == ranges.size(), "the ranges cover the arena once");
  missing_ = ranges_of_;
  next_ = buckets_.size();
  thread_ = std::jthread([this] { Reduce(); });
}

GradientBuckets::~GradientBuckets() {
  MutexLock lock(mutex_);
  over_ = true;
  changed_.NotifyAll();
}

void GradientBuckets::Begin() {
  MutexLock lock(mutex_);
  ATOLL_CHECK(next_ == buckets_.size() && !running_, "a pass begins when the last one is finished or halted");
  missing_ = ranges_of_;
  next_ = 0;
  sent_ = false;
  status_ = absl::OkStatus();
}

void GradientBuckets::Ready(uint64_t offset) {
  const uint32_t bucket = bucket_at_.at(offset);
  MutexLock lock(mutex_);
  ATOLL_CHECK(missing_[bucket] > 0, "a range is ready once");
  if (--missing_[bucket] == 0) changed_.NotifyAll();
}

absl::Status GradientBuckets::Finish() {
  MutexLock lock(mutex_);
  missing_.assign(missing_.size(), 0);
  changed_.NotifyAll();
  while (running_ || next_ < buckets_.size()) changed_.Wait(mutex_);
  if (!status_.ok()) return status_;
  mutex_.Unlock();
  absl::Status settled = island_.Settle();
  mutex_.Lock();
  if (settled.ok()) sent_ = false;
  return settled;
}

bool GradientBuckets::Halt() {
  MutexLock lock(mutex_);
  next_ = buckets_.size();
  while (running_) changed_.Wait(mutex_);
  return !sent_;
}

// Reduces buckets in order: a ready one waits for the earlier ones, so that all ranks reduce the same at a time.
void GradientBuckets::Reduce() {
  MutexLock lock(mutex_);
  for (;;) {
    while (!over_ && (next_ == buckets_.size() || missing_[next_] > 0)) changed_.Wait(mutex_);
    if (over_) return;
    const GradientRange bucket = buckets_[next_++];
    if (!status_.ok()) {
      changed_.NotifyAll();
      continue;
    }
    running_ = sent_ = true;
    mutex_.Unlock();
    const absl::Status reduced = island_.AllReduceMean(gradients_.subspan(bucket.offset, bucket.elements), nullptr);
    mutex_.Lock();
    running_ = false;
    if (status_.ok()) status_ = reduced;
    changed_.NotifyAll();
  }
}

}  // namespace atl
