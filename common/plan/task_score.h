// SPDX-License-Identifier: Apache-2.0
// The result of an evaluation task, in messages and records.
#ifndef ATOLL_COMMON_PLAN_TASK_SCORE_H_
#define ATOLL_COMMON_PLAN_TASK_SCORE_H_

#include <cstdint>
#include <optional>
#include <string>

namespace atl {

// `correct`: examples where the right choice alone has the highest log-probability (`_per_byte`: per byte of choice).
struct TaskScore {
  std::string name;  // name of the task in the job
  uint64_t examples = 0, correct = 0;
  std::optional<uint64_t> correct_per_byte;  // absent for minimal pairs
  friend bool operator==(const TaskScore&, const TaskScore&) = default;
};

}  // namespace atl

#endif  // ATOLL_COMMON_PLAN_TASK_SCORE_H_
