// SPDX-License-Identifier: Apache-2.0
#include "worker/replica/cancellable_task.h"

namespace atl {

std::shared_ptr<CancellableTask> CancellableTask::Send(Executor& executor, std::function<void()> work) {
  auto task = std::make_shared<CancellableTask>(std::move(work));
  executor.Post([task] { task->RunOnce(); });
  return task;
}

void CancellableTask::RunOnce() {
  {
    MutexLock lock(mutex_);
    if (stage_ != Stage::kSent) return;
    stage_ = Stage::kRunning;
  }
  work_();
  MutexLock lock(mutex_);
  stage_ = Stage::kOver;
  ended_.NotifyAll();
}

void CancellableTask::AwaitEnd() {
  while (stage_ != Stage::kOver) ended_.Wait(mutex_);
}

void CancellableTask::Finish() {
  RunOnce();
  MutexLock lock(mutex_);
  AwaitEnd();
}

void CancellableTask::Cancel() {
  MutexLock lock(mutex_);
  if (stage_ == Stage::kSent) stage_ = Stage::kOver;
  AwaitEnd();
}

}  // namespace atl
