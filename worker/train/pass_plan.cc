// SPDX-License-Identifier: Apache-2.0
#include "worker/train/pass_plan.h"

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace atl {

PassMode PassPlan::Next(const PassShape& shape) {
  if (!refused_.ok()) return PassMode::kLaunch;
  if (shape != shape_ || state_ == State::kProving) {
    shape_ = shape;
    state_ = State::kWarming;
    warm_steps_ = 0;
  }
  if (state_ == State::kPlaying) return PassMode::kPlay;
  if (warm_steps_ < kWarmSteps) {
    ++warm_steps_;
    return PassMode::kLaunch;
  }
  if (recordings_ == kMostRecordings) {
    refused_ = absl::FailedPreconditionError(
        absl::StrCat("steps had another shape ", recordings_, " times, but a recording has one shape"));
    return PassMode::kLaunch;
  }
  ++recordings_;
  state_ = State::kProving;
  return PassMode::kProve;
}

void PassPlan::Proved(const absl::Status& verdict) {
  ATOLL_CHECK(state_ == State::kProving, "a verdict on a recording that was to be proved");
  refused_ = verdict;
  state_ = verdict.ok() ? State::kPlaying : State::kWarming;
}

void PassPlan::Failed(const absl::Status& why) {
  ATOLL_CHECK(state_ == State::kPlaying && !why.ok(), "a recording that was played fails with a reason");
  refused_ = why;
  state_ = State::kWarming;
}

}  // namespace atl
