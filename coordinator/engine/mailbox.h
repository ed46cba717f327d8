// The engine's queue: many threads put, the engine thread takes. The only way into the engine. Bounded against workers,
// who may send as often as they like; calls and completions are as many as there are streams, uploads and tasks.
#ifndef ATOLL_COORDINATOR_ENGINE_MAILBOX_H_
#define ATOLL_COORDINATOR_ENGINE_MAILBOX_H_

#include <deque>
#include <functional>

#include "common/base/mutex.h"
#include "common/base/time.h"

namespace atl {

// Thread-safe. Work put by one thread is taken in the order it was put.
class EngineMailbox {
 public:
  explicit EngineMailbox(size_t limit) : limit_(limit) {}

  // False when `limit` entries wait already: the caller must cut its source off. For everything that cannot come in
  // any number there is PutAlways.
  bool Put(std::function<void()> work) ATOLL_EXCLUDES(mutex_);
  void PutAlways(std::function<void()> work) ATOLL_EXCLUDES(mutex_);
  // Everything that waits, oldest first; empties the box.
  std::deque<std::function<void()>> TakeAll() ATOLL_EXCLUDES(mutex_);
  // Returns when something waits or `limit` has passed.
  void WaitFor(Duration limit) ATOLL_EXCLUDES(mutex_);
  bool empty() const ATOLL_EXCLUDES(mutex_);

 private:
  const size_t limit_;
  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<std::function<void()>> queue_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_MAILBOX_H_
