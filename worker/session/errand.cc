// SPDX-License-Identifier: Apache-2.0
#include "worker/session/errand.h"

namespace atl {

std::shared_ptr<Errand> Errand::Send(Executor& executor, std::function<void()> work) {
  auto errand = std::make_shared<Errand>(std::move(work));
  executor.Post([errand] { errand->RunOnce(); });
  return errand;
}

void Errand::RunOnce() {
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

void Errand::AwaitEnd() {
  while (stage_ != Stage::kOver) ended_.Wait(mutex_);
}

void Errand::Finish() {
  RunOnce();
  MutexLock lock(mutex_);
  AwaitEnd();
}

void Errand::TakeBack() {
  MutexLock lock(mutex_);
  if (stage_ == Stage::kSent) stage_ = Stage::kOver;
  AwaitEnd();
}

}  // namespace atl
