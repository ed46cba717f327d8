// SPDX-License-Identifier: Apache-2.0
#include "common/base/executor.h"

#include <utility>

#include "common/base/check.h"

namespace atl {

ThreadExecutor::ThreadExecutor(size_t threads) {
  ATOLL_CHECK(threads >= 1, "an executor needs a thread");
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

ThreadExecutor::~ThreadExecutor() { Stop(); }

void ThreadExecutor::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  threads_.clear();  // joins
}

void ThreadExecutor::Post(std::function<void()> work) {
  {
    MutexLock lock(mutex_);
    if (stopping_) return;
    queue_.push_back(std::move(work));
  }
  wake_.NotifyOne();
}

void ThreadExecutor::Run() {
  for (;;) {
    std::function<void()> work;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) wake_.Wait(mutex_);
      if (queue_.empty()) return;
      work = queue_.Take();
    }
    work();
  }
}

}  // namespace atl
