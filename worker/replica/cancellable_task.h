// SPDX-License-Identifier: Apache-2.0
// Work on an executor that its owner can still finish or take back. Afterwards the owner may use
// the data of the work again.
#ifndef ATOLL_WORKER_REPLICA_CANCELLABLE_TASK_H_
#define ATOLL_WORKER_REPLICA_CANCELLABLE_TASK_H_

#include <functional>
#include <memory>
#include <utility>

#include "common/base/executor.h"
#include "common/base/mutex.h"

namespace atl {

// Thread-safe. `work` runs once, or never if it was taken back.
class CancellableTask {
 public:
  explicit CancellableTask(std::function<void()> work) : work_(std::move(work)) {}
  static std::shared_ptr<CancellableTask> Send(Executor& executor, std::function<void()> work);

  // Returns when the work has ended: runs it on this thread if it had not begun, otherwise waits
  // for it. Must not be called by the work.
  void Finish() ATOLL_EXCLUDES(mutex_);
  // Returns when the work has ended, or will never run: drops it if it had not begun, otherwise
  // waits for it. Must not be called by the work.
  void Cancel() ATOLL_EXCLUDES(mutex_);

 private:
  enum class Stage { kSent, kRunning, kOver };
  void RunOnce() ATOLL_EXCLUDES(mutex_);
  void AwaitEnd() ATOLL_REQUIRES(mutex_);

  const std::function<void()> work_;
  Mutex mutex_;
  CondVar ended_;
  Stage stage_ ATOLL_GUARDED_BY(mutex_) = Stage::kSent;
};

}  // namespace atl

#endif  // ATOLL_WORKER_REPLICA_CANCELLABLE_TASK_H_
