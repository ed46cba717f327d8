// SPDX-License-Identifier: Apache-2.0
// What training waits for, and since when. Pure.
#ifndef ATOLL_WORKER_CORE_WAITING_H_
#define ATOLL_WORKER_CORE_WAITING_H_

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/time.h"

namespace atl::worker {

class Waiting {
 public:
  // Empty: not waiting. The same clause goes on waiting since it was first set.
  void Set(std::string clause, Instant now) {
    if (!clause.empty()) samples_missing_since_ = kNever;
    if (clause == clause_) return;
    clause_ = std::move(clause);
    since_ = now;
  }
  // Of one step that is tried again and again: since the first try, whatever the reason is by now.
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
  Instant samples_missing_since_ = kNever;  // no step was taken since, and nothing else was waited for
};

}  // namespace atl::worker

#endif  // ATOLL_WORKER_CORE_WAITING_H_
