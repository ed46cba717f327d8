// SPDX-License-Identifier: Apache-2.0
// Limits how many lines of one kind enter a log.
#ifndef ATOLL_COMMON_BASE_LINE_RATE_H_
#define ATOLL_COMMON_BASE_LINE_RATE_H_

#include <cstdint>
#include <optional>

#include "common/base/mutex.h"
#include "common/base/time.h"

namespace atl {

// Rate limit for one kind of line in a log: kLines at once, then one more for each kEvery. A peer that creates
// lines on purpose, even for weeks, then cannot push out other lines. Suppressed lines are counted.
class LineRate {
 public:
  static constexpr uint32_t kLines = 200;
  static constexpr Duration kEvery = Seconds(20);
  // Asks whether one line may be logged. Returns the number of lines suppressed since the last line that was allowed;
  // nullopt if this line must be suppressed too. Thread-safe.
  std::optional<uint64_t> Take(Instant now) ATOLL_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  Instant reckoned_to_ ATOLL_GUARDED_BY(mutex_) = {};
  int64_t left_ ATOLL_GUARDED_BY(mutex_) = kLines;
  uint64_t untold_ ATOLL_GUARDED_BY(mutex_) = 0;
};

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_LINE_RATE_H_
