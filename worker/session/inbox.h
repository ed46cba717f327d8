// SPDX-License-Identifier: Apache-2.0
// The session's queue: messages of the link, and results of contributions and updates processed in
// parallel with training.
#ifndef ATOLL_WORKER_SESSION_INBOX_H_
#define ATOLL_WORKER_SESSION_INBOX_H_

#include <deque>
#include <optional>
#include <utility>
#include <variant>

#include "common/base/mutex.h"
#include "worker/link/link.h"
#include "worker/replica/replicas.h"

namespace atl {

using SessionEvent = std::variant<LinkEvent, FormingEnded, ApplyEnded>;

// Thread-safe. Entries are taken in the order of Post.
class Inbox {
 public:
  void Post(SessionEvent entry) ATOLL_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    events_.push_back(std::move(entry));
  }
  std::deque<SessionEvent> TakeAll() ATOLL_EXCLUDES(mutex_) {
    std::deque<SessionEvent> taken;
    MutexLock lock(mutex_);
    taken.swap(events_);
    return taken;
  }
  // Takes the first entry if `wanted`, a cheap predicate, accepts it; otherwise it stays, with all later ones.
  template <typename Predicate>
  std::optional<SessionEvent> TakeFirstIf(Predicate wanted) ATOLL_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (events_.empty() || !wanted(events_.front())) return std::nullopt;
    std::optional<SessionEvent> taken(std::move(events_.front()));
    events_.pop_front();
    return taken;
  }

 private:
  Mutex mutex_;
  std::deque<SessionEvent> events_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atl

#endif  // ATOLL_WORKER_SESSION_INBOX_H_
