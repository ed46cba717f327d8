// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/download_turns.h"

#include <utility>

namespace atl {

bool DownloadTurns::Enter(const std::string& connection) {
  const MutexLock lock(mutex_);
  size_t& entered = entered_[connection];
  if (entered >= per_connection_) return false;
  ++entered;
  return true;
}

void DownloadTurns::Leave(const std::string& connection) {
  const MutexLock lock(mutex_);
  const auto entered = entered_.find(connection);
  if (--entered->second == 0) entered_.erase(entered);
}

size_t DownloadTurns::Of(const std::string& connection) const {
  const MutexLock lock(mutex_);
  const auto entered = entered_.find(connection);
  return entered == entered_.end() ? 0 : entered->second;
}

void DownloadTurns::Take(const std::string& connection, Work work) {
  {
    const MutexLock lock(mutex_);
    std::deque<Work>& queue = waiting_[connection];
    if (queue.empty()) order_.push_back(connection);
    queue.push_back(std::move(work));
  }
  Give();
}

void DownloadTurns::Give() {
  for (bool first = true;; first = false) {
    Work work;
    {
      const MutexLock lock(mutex_);
      if (first && giving_) return;  // the other thread checks again before it stops
      giving_ = running_ < at_once_ && !order_.empty();
      if (!giving_) return;
      const std::string connection = std::move(order_.front());
      order_.pop_front();
      const auto queue = waiting_.find(connection);
      work = std::move(queue->second.front());
      queue->second.pop_front();
      if (queue->second.empty()) {
        waiting_.erase(queue);
      } else {
        order_.push_back(connection);
      }
      ++running_;
    }
    work([this] {
      {
        const MutexLock lock(mutex_);
        --running_;
      }
      Give();
    });
  }
}

}  // namespace atl
