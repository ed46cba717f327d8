// SPDX-License-Identifier: Apache-2.0
#include "common/base/line_rate.h"

#include <algorithm>
#include <utility>

namespace atl {

std::optional<uint64_t> LineRate::Take(Instant now) {
  MutexLock lock(mutex_);
  const int64_t came = (now - reckoned_to_).ns / kEvery.ns;
  left_ = std::min<int64_t>(kLines, left_ + came);
  reckoned_to_ = reckoned_to_ + kEvery * came;
  if (left_ == 0) {
    ++untold_;
    return std::nullopt;
  }
  --left_;
  return std::exchange(untold_, 0);
}

}  // namespace atl
