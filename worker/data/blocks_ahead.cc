// SPDX-License-Identifier: Apache-2.0
#include "worker/data/blocks_ahead.h"

#include <set>
#include <utility>

namespace atl {
namespace {

constexpr Duration kRetryPause = Seconds(5);  // for an unavailable source; no reader waits for prefetched blocks

}  // namespace

std::vector<BlockId> BlocksOf(const std::vector<SampleRange>& ranges, size_t limit, const DataOrder& order,
                              const std::vector<CorpusManifest>& manifests) {
  const std::vector<std::vector<uint32_t>> files = TrainingFiles(manifests);
  std::vector<BlockId> out;
  std::set<BlockId> seen;
  for (const SampleRange& range : ranges) {
    for (uint64_t position = range.begin; position < range.end; ++position) {
      const SampleLocation at = order.At(position);
      const uint64_t per_block = kBlockBytes / TokenBytes(manifests[at.corpus].token_type);
      const uint64_t last = (at.token + order.sequence_length()) / per_block;  // a sample has T + 1 tokens
      for (uint64_t block = at.token / per_block; block <= last; ++block) {
        const BlockId id{at.corpus, files[at.corpus][at.shard], static_cast<uint32_t>(block)};
        if (!seen.insert(id).second) continue;
        if (out.size() == limit) return out;
        out.push_back(id);
      }
    }
  }
  return out;
}

BlocksAhead::BlocksAhead(BlockSource& source, DataOrder order, CorpusManifests manifests, const Clock& clock,
                         size_t limit)
    : source_(source),
      order_(std::move(order)),
      manifests_(std::move(manifests)),
      clock_(clock),
      limit_(limit),
      thread_([this] { Run(); }) {}

BlocksAhead::~BlocksAhead() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void BlocksAhead::Want(std::vector<SampleRange> unread) {
  {
    const MutexLock lock(mutex_);
    unread_ = std::move(unread);
    ++wish_;
  }
  changed_.NotifyAll();
}

void BlocksAhead::Run() {
  mutex_.Lock();
  uint64_t done = 0;
  while (!stopping_) {
    if (done == wish_) {
      changed_.Wait(mutex_);
      continue;
    }
    done = wish_;
    const std::vector<SampleRange> unread = unread_;
    mutex_.Unlock();
    const std::vector<BlockId> blocks = BlocksOf(unread, limit_, order_, *manifests_);
    mutex_.Lock();
    Keep(blocks, done);
  }
  mutex_.Unlock();
}

void BlocksAhead::Keep(const std::vector<BlockId>& blocks, uint64_t wish) {
  for (size_t i = 0; i < blocks.size() && Holds(wish);) {
    mutex_.Unlock();
    const Instant begin = clock_.Now();
    const absl::Status kept = source_.KeepBlock(blocks[i]);
    const Duration took = clock_.Now() - begin;
    mutex_.Lock();
    const bool again = absl::IsUnavailable(kept);
    if (!kept.ok() && !again) return;  // the reader gets the error if it needs that block
    if (!again) ++i;
    Rest(again ? kRetryPause : took, wish);
  }
}

void BlocksAhead::Rest(Duration limit, uint64_t wish) {
  const Instant end = clock_.Now() + limit;
  while (Holds(wish)) {
    const Instant now = clock_.Now();
    if (now >= end) return;
    changed_.WaitFor(mutex_, end - now);
  }
}

}  // namespace atl
