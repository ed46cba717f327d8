// SPDX-License-Identifier: Apache-2.0
// Limits the number of calls of each caller, by name. For calls that each take the engine's time, or leave lines in a
// log or a record on disk.
#ifndef ATOLL_COORDINATOR_SERVICE_CALL_BUDGET_H_
#define ATOLL_COORDINATOR_SERVICE_CALL_BUDGET_H_

#include <cstdint>
#include <map>
#include <string>

#include "common/base/time.h"

namespace atl {

// Not thread-safe. `now` never decreases.
class CallBudget {
 public:
  // `at_once` calls, then one more for each `every`.
  struct Limits {
    int64_t at_once;
    Duration every;
  };
  explicit CallBudget(Limits limits) : limits_(limits) {}
  // False: the caller's budget is used up.
  bool Take(const std::string& caller, Instant now);

 private:
  const Limits limits_;
  std::map<std::string, Instant> whole_at_;  // when the budget is full again
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_CALL_BUDGET_H_
