// SPDX-License-Identifier: Apache-2.0
// The engine's queue: many threads put, the engine thread takes. The only way into the engine. Bounded against workers,
// who may send as often as they like; calls and completions are as many as there are streams, uploads and tasks.
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

// Thread-safe. Work put by one thread is taken in the order it was put.
class EngineMailbox {
 public:
  EngineMailbox(size_t limit, size_t limit_of_source) : limit_(limit), limit_of_source_(limit_of_source) {}

  static constexpr size_t kBytesOfSource = size_t{4} << 20;

  // False when `limit` entries wait already, or of this source `limit_of_source` or kBytesOfSource, of which the work
  // holds `bytes`: the caller must cut it off. For everything that cannot come in any number there is PutAlways.
  bool Put(uint64_t source, size_t bytes, std::function<void()> work) ATOLL_EXCLUDES(mutex_);
  void PutAlways(std::function<void()> work) ATOLL_EXCLUDES(mutex_);
  // Everything that waits, oldest first; empties the box.
  std::deque<std::function<void()>> TakeAll() ATOLL_EXCLUDES(mutex_);
  // Returns when something waits or `limit` has passed.
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
  std::unordered_map<uint64_t, Waiting> waiting_ ATOLL_GUARDED_BY(mutex_);  // in the queue, of each source
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_MAILBOX_H_
