// SPDX-License-Identifier: Apache-2.0
// Commit, then publish. The effects of the core's steps are released in the order of the steps,
// each only after the ledger holds its records. While a transaction is flushed, the records of
// later steps gather for the next one: a busy coordinator pays one flush for many steps. A failed
// commit ends the process (I24).
#ifndef ATOLL_COORDINATOR_ENGINE_COMMIT_PIPELINE_H_
#define ATOLL_COORDINATOR_ENGINE_COMMIT_PIPELINE_H_

#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "common/base/executor.h"
#include "common/base/status.h"
#include "coordinator/core/events.h"

namespace atl {

// Lives on the engine thread. Memory: the effects of steps that wait for a flush.
class CommitPipeline {
 public:
  struct Parts {
    Executor& executor;  // where `commit` runs
    // Makes records durable as one transaction.
    std::function<absl::Status(const std::vector<LedgerRecord>&)> commit;
    // Runs its argument on the engine thread.
    std::function<void(std::function<void()>)> completed;
    // Publishes the effects of one step after its records are durable.
    std::function<void(Effects)> release;
    // The ledger could not be written: ends the process. If it returns, as in tests, nothing more is released.
    std::function<void(const absl::Status&)> fatal;
  };
  explicit CommitPipeline(Parts parts) : parts_(std::move(parts)) {}

  // Takes the effects of one step. Releases them within this call if they have no records and no step waits.
  void Push(Effects effects);
  bool idle() const { return !flushing_ && waiting_.empty(); }

 private:
  void FlushIfDue();
  void OnFlushed(const absl::Status& status, size_t steps);

  Parts parts_;
  std::deque<Effects> waiting_;  // steps not yet released, oldest first
  bool flushing_ = false;
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_COMMIT_PIPELINE_H_
