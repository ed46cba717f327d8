// SPDX-License-Identifier: Apache-2.0
// Limits the bytes of answers that their callers have not taken yet: gRPC counts them against no
// quota, and a caller that does not read can ask for many.
#ifndef ATOLL_COMMON_RPC_ANSWER_BUDGET_H_
#define ATOLL_COMMON_RPC_ANSWER_BUDGET_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"

namespace atl {

struct AnswerLimits {
  size_t all = size_t{64} << 20;     // bytes of answers not taken yet; a further one is refused
  size_t of_one = size_t{16} << 20;  // of them for one identity
};

// Thread-safe. A Held may outlive the budget.
class AnswerBudget {
 public:
  using Limits = AnswerLimits;
  explicit AnswerBudget(const Limits& limits) : limits_(limits) {}
  // Holds the bytes of an answer in the budget; destroying the last copy returns them.
  using Held = std::shared_ptr<const void>;
  // ResourceExhausted if the answer would exceed a limit. All callers without a certificate ("") count as one.
  absl::StatusOr<Held> Take(const std::string& caller, size_t bytes);
  // Bytes of all answers that have a Held.
  size_t taken() const;

 private:
  struct Taken {
    Mutex mutex;
    size_t all ATOLL_GUARDED_BY(mutex) = 0;
    std::map<std::string, size_t> of ATOLL_GUARDED_BY(mutex);
  };
  const Limits limits_;
  const std::shared_ptr<Taken> taken_ = std::make_shared<Taken>();
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_ANSWER_BUDGET_H_
