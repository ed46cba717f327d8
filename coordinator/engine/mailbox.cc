// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/mailbox.h"

#include <utility>

namespace atl {

bool EngineMailbox::Put(uint64_t source, size_t bytes, std::function<void()> work) {
  {
    MutexLock lock(mutex_);
    if (queue_.size() >= limit_) return false;
    Waiting& waiting = waiting_[source];
    if (waiting.entries >= limit_of_source_ || bytes > kBytesOfSource - waiting.bytes) return false;
    ++waiting.entries;
    waiting.bytes += bytes;
    queue_.push_back(std::move(work));
  }
  wake_.NotifyOne();
  return true;
}

void EngineMailbox::PutAlways(std::function<void()> work) {
  {
    MutexLock lock(mutex_);
    queue_.push_back(std::move(work));
  }
  wake_.NotifyOne();
}

std::deque<std::function<void()>> EngineMailbox::TakeAll() {
  MutexLock lock(mutex_);
  waiting_.clear();
  return std::exchange(queue_, {});
}

void EngineMailbox::WaitFor(Duration limit) {
  MutexLock lock(mutex_);
  if (queue_.empty() && limit > Duration{}) wake_.WaitFor(mutex_, limit);
}

bool EngineMailbox::empty() const {
  MutexLock lock(mutex_);
  return queue_.empty();
}

}  // namespace atl
