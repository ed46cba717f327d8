// SPDX-License-Identifier: Apache-2.0
// Calls the handlers of one stream end one at a time. After Detach no handler runs any more, as the
// destructor of MessageStream promises. Used by every implementation of MessageStream; not for
// other rooms.
#ifndef ATOLL_COMMON_RPC_HANDLER_GATE_H_
#define ATOLL_COMMON_RPC_HANDLER_GATE_H_

#include <thread>
#include <utility>

#include "common/base/mutex.h"
#include "common/rpc/message_stream.h"

namespace atl {

// Thread-safe, but callers must not call Message and Closed concurrently.
template <typename In>
class HandlerGate {
 public:
  void Set(StreamHandlers<In> handlers) ATOLL_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    handlers_ = std::make_shared<StreamHandlers<In>>(std::move(handlers));
  }
  void Message(In message) {
    if (const auto handlers = Enter()) {
      if (handlers->on_message) handlers->on_message(std::move(message));
      Leave();
    }
  }
  void Closed(absl::Status status) {
    if (const auto handlers = Enter()) {
      if (handlers->on_closed) handlers->on_closed(std::move(status));
      Leave();
    }
    MutexLock lock(mutex_);
    handlers_.reset();
  }
  // Drops the handlers and waits for a running one; returns false. Inside a handler: does not wait, returns true.
  bool Detach() ATOLL_EXCLUDES(mutex_) {
    std::shared_ptr<StreamHandlers<In>> dropped;  // destroyed after the lock is released
    MutexLock lock(mutex_);
    detached_ = true;
    dropped.swap(handlers_);
    while (running_ && runner_ != std::this_thread::get_id()) idle_.Wait(mutex_);
    return running_;
  }

 private:
  std::shared_ptr<StreamHandlers<In>> Enter() ATOLL_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (detached_ || handlers_ == nullptr) return nullptr;
    running_ = true;
    runner_ = std::this_thread::get_id();
    return handlers_;
  }
  void Leave() ATOLL_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    running_ = false;
    idle_.NotifyAll();
  }

  Mutex mutex_;
  CondVar idle_;
  std::shared_ptr<StreamHandlers<In>> handlers_ ATOLL_GUARDED_BY(mutex_);
  bool detached_ ATOLL_GUARDED_BY(mutex_) = false;
  bool running_ ATOLL_GUARDED_BY(mutex_) = false;
  std::thread::id runner_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_HANDLER_GATE_H_
