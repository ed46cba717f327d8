// SPDX-License-Identifier: Apache-2.0
// Delays events that reach a session while its machine takes a step. The simulation takes a step in
// one instant and lets the step's time pass afterwards. Events of the link or of the parallel
// thread within that time are kept, and delivered within the next step, or after the next turn if
// no step follows.
#ifndef ATOLL_TESTS_SIM_STEP_EAR_H_
#define ATOLL_TESTS_SIM_STEP_EAR_H_

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "common/base/executor.h"

namespace atl {

// The executor of a session; passes jobs on to the wrapped executor. If `listens` is false it keeps
// nothing. Not thread-safe.
class StepEar final : public Executor, public std::enable_shared_from_this<StepEar> {
 public:
  // `wake` is called when an event is kept.
  StepEar(Executor& beside, bool listens, std::function<void()> wake)
      : beside_(beside), listens_(listens), wake_(std::move(wake)) {}

  void Post(std::function<void()> work) override {
    if (!listens_) return beside_.Post(std::move(work));
    beside_.Post([self = shared_from_this(), work = std::move(work)]() mutable { self->Keep(std::move(work)); });
  }
  void Keep(std::function<void()> work) {
    if (!listens_) return work();
    if (closed_) return;
    kept_.push_back(std::move(work));
    wake_();
  }
  void Hear() {
    for (; !kept_.empty(); kept_.pop_front()) kept_.front()();
  }
  // The session is gone: keeps no more events and calls no `wake`.
  void Close() {
    closed_ = true;
    kept_.clear();
  }

 private:
  Executor& beside_;
  const bool listens_;
  const std::function<void()> wake_;
  bool closed_ = false;
  std::deque<std::function<void()>> kept_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_STEP_EAR_H_
