// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/slow_bulk.h"

#include <algorithm>

namespace atl {

struct SlowBulk::Pending {
  Instant due;
  Begin begin;
  BulkDone done;
  std::unique_ptr<BulkCall> call;  // once it has begun
  bool ended = false;
};

// If it is destroyed before it begins, it never begins.
class SlowBulk::Call final : public BulkCall {
 public:
  explicit Call(std::shared_ptr<Pending> pending) : pending_(std::move(pending)) {}
  void Cancel() override {
    if (pending_->call != nullptr) return pending_->call->Cancel();
    if (!std::exchange(pending_->ended, true)) pending_->done({absl::CancelledError("cancelled"), 0, 0});
  }

 private:
  std::shared_ptr<Pending> pending_;
};

std::unique_ptr<BulkCall> SlowBulk::Upload(UploadHeader header, std::shared_ptr<BulkSource> source, BulkDone done) {
  if (upload_bytes_per_second == 0) return fast_.Upload(std::move(header), std::move(source), std::move(done));
  const auto nanos = static_cast<int64_t>(source->size_bytes() * 1'000'000'000 / upload_bytes_per_second);
  up_free_at_ = std::max(up_free_at_, clock_.Now()) + Nanoseconds(nanos);
  const auto begin = [this, header = std::move(header), source = std::move(source)](BulkDone told) {
    return fast_.Upload(header, source, std::move(told));
  };
  return BeginAt(up_free_at_, begin, std::move(done));
}

std::unique_ptr<BulkCall> SlowBulk::Download(DownloadRequest request, std::shared_ptr<BulkSink> sink, BulkDone done) {
  if (download_takes.ns == 0) return fast_.Download(std::move(request), std::move(sink), std::move(done));
  down_free_at_ = std::max(down_free_at_, clock_.Now()) + download_takes;
  const auto begin = [this, request = std::move(request), sink = std::move(sink)](BulkDone told) {
    return fast_.Download(request, sink, std::move(told));
  };
  return BeginAt(down_free_at_, begin, std::move(done));
}

std::unique_ptr<BulkCall> SlowBulk::BeginAt(Instant due, Begin begin, BulkDone done) {
  const auto pending = std::make_shared<Pending>(Pending{due, std::move(begin), std::move(done), nullptr});
  pending_.push_back(pending);
  return std::make_unique<Call>(pending);
}

Instant SlowBulk::Turn() {
  Instant next = kNever;
  std::vector<std::weak_ptr<Pending>> still;
  for (const std::weak_ptr<Pending>& one : std::exchange(pending_, {})) {
    const std::shared_ptr<Pending> pending = one.lock();
    if (pending == nullptr || pending->ended) continue;
    if (pending->due <= clock_.Now()) {
      pending->call = pending->begin(std::move(pending->done));
      continue;
    }
    next = std::min(next, pending->due);
    still.push_back(one);
  }
  pending_ = std::move(still);
  return next;
}

}  // namespace atl
