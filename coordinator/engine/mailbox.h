// SPDX-License-Identifier: Apache-2.0
// The engine's queue of events and calls: many threads put, the engine thread takes. Bounded against workers,
// which can send without limit. Calls and completions are bounded by the number of streams, uploads and tasks.
#ifndef ATOLL_COORDINATOR_ENGINE_MAILBOX_H_
#define ATOLL_COORDINATOR_ENGINE_MAILBOX_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>

#include "common/base/mutex.h"
#include "common/base/time.h"

namespace atl {

// Thread-safe. Work put by one thread is taken in the order in which it was put.
class EngineMailbox {
 public:
  EngineMailbox(size_t limit, size_t limit_of_source) : limit_(limit), limit_of_source_(limit_of_source) {}

  static constexpr size_t kBytesOfSource = size_t{4} << 20;

  // `bytes`: the size of the work. False if `limit` entries wait, or `limit_of_source` entries or
  // kBytesOfSource bytes of this source: the caller must close the source. PutAlways is for work
  // that has a bound of its own.
  bool Put(uint64_t source, size_t bytes, std::function<void()> work) ATOLL_EXCLUDES(mutex_);
  void PutAlways(std::function<void()> work) ATOLL_EXCLUDES(mutex_);
  // Returns all entries, oldest first, and empties the mailbox.
  std::deque<std::function<void()>> TakeAll() ATOLL_EXCLUDES(mutex_);
  // Blocks until an entry waits, or for the given duration if none does.
  void WaitFor(Duration limit) ATOLL_EXCLUDES(mutex_);
  bool empty() const ATOLL_EXCLUDES(mutex_);

 private:
  const size_t limit_, limit_of_source_;
  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<std::function<void()>> queue_ ATOLL_GUARDED_BY(mutex_);
  struct Waiting {
    size_t entries = 0, bytes = 0;
  };
  std::unordered_map<uint64_t, Waiting> waiting_ ATOLL_GUARDED_BY(mutex_);  // queued, by source
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_MAILBOX_H_
