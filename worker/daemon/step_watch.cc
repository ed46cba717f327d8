// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/step_watch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/upper_median.h"

namespace atl {

void StepWatch::Begins(const JobId& job, TrainWork work, Duration slow_step) {
  MutexLock lock(mutex_);
  if (job != job_) newest_.clear();
  job_ = job;
  slow_step_ = slow_step;
  under_way_ = work;
  counted_to_ = clock_.Now();
  taken_ = told_next_ = {};
}

void StepWatch::Ended() {
  MutexLock lock(mutex_);
  if (!under_way_) return;
  Count(clock_.Now());
  const bool step = *under_way_ == TrainWork::kStep;
  under_way_.reset();
  if (told_next_ > Duration{}) {
    log_.Info(step ? "step ended" : "work ended", {{"job", job_.value}, {"took_s", ToSeconds(taken_)}});
  }
  if (!step) return;
  if (newest_.size() == kRemembered) newest_.erase(newest_.begin());
  newest_.push_back(taken_);
}

absl::Status StepWatch::Look() {
  MutexLock lock(mutex_);
  if (!under_way_) return absl::OkStatus();
  Count(clock_.Now());
  const bool step = *under_way_ == TrainWork::kStep;
  const Duration usual = Usual();
  const bool known = usual > Duration{};
  const Duration long_after = known ? std::max(kFloor, usual * kTimesUsual) : kFirst;
  if (taken_ < long_after) return absl::OkStatus();
  if (taken_ >= told_next_) {
    log_.Warn(step ? "step takes long" : "work takes long",
              {{"job", job_.value}, {"under_way_s", ToSeconds(taken_)}, {"usually_s", ToSeconds(usual)}});
    told_next_ = taken_ + kAgainEvery;
  }
  const Duration limit = known ? std::max(kGivenUp, usual * kTimesGivenUp) : kFirstGivenUp + slow_step_ * kTimesSlow;
  if (taken_ < limit) return absl::OkStatus();
  const char* what = known ? "a step" : step ? "the first step" : "a merge or evaluation between two steps";
  return absl::DeadlineExceededError(
      absl::StrCat(what, " of job ", job_.value, " has been running for ", ToSeconds(taken_),
                   step ? " s, a step usually takes " : " s, a step takes ", ToSeconds(known ? usual : slow_step_),
                   known ? " s" : " s on a very slow machine",
                   ": the device or its driver hangs; check the system's log, then restart the worker"));
}

Duration StepWatch::Usual() const {
  return under_way_ == TrainWork::kStep && !newest_.empty() ? UpperMedian(newest_) : Duration{};
}

void StepWatch::Count(Instant now) {
  taken_ = taken_ + std::min(now - counted_to_, kLongestLook);
  counted_to_ = now;
}

}  // namespace atl
