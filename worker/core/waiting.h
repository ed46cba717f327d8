// SPDX-License-Identifier: Apache-2.0
// The reason and the start of a wait of training. Pure.
#ifndef ATOLL_WORKER_CORE_WAITING_H_
#define ATOLL_WORKER_CORE_WAITING_H_

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/time.h"

namespace atl::worker {

class Waiting {
 public:
  // Empty: not waiting. An unchanged clause keeps its start time.
  void Set(std::string clause, Instant now) {
    if (!clause.empty()) samples_missing_since_ = kNever;
    if (clause == clause_) return;
    clause_ = std::move(clause);
    since_ = now;
  }
  // For repeated attempts at one step: the start is the first attempt, whatever the present reason.
  void SetForSamples(std::string reason, Instant now) {
    const Instant since = std::min(samples_missing_since_, now);
    Set(std::move(reason), now);
    samples_missing_since_ = since_ = since;
  }
  void OnStepDone() { samples_missing_since_ = kNever; }

  const std::string& clause() const { return clause_; }
  Instant since() const { return since_; }

 private:
  std::string clause_;
  Instant since_{};
  Instant samples_missing_since_ = kNever;  // first failed attempt since the last step or other wait
};

}  // namespace atl::worker

#endif  // ATOLL_WORKER_CORE_WAITING_H_
