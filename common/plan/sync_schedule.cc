// SPDX-License-Identifier: Apache-2.0
#include "common/plan/sync_schedule.h"

#include <algorithm>

#include "common/base/check.h"

namespace atl {

SyncSchedule::SyncSchedule(uint32_t inner_steps, uint32_t overlap_steps, uint32_t fragments,
                           std::optional<uint32_t> own_overlap_steps)
    : inner_steps_(inner_steps),
      overlap_steps_(overlap_steps),
      fragments_(fragments),
      own_overlap_steps_(own_overlap_steps.value_or(overlap_steps)) {
  ATOLL_CHECK(inner_steps >= 1, "a schedule needs a period of at least one step");
  ATOLL_CHECK(std::max(overlap_steps, own_overlap_steps_) < inner_steps, "the overlap must be shorter than the period");
  ATOLL_CHECK(fragments >= 1, "a schedule needs a fragment");
}

uint32_t SyncSchedule::OffsetOf(FragmentIndex fragment) const {
  ATOLL_CHECK(fragment.value < fragments_, "no such fragment");
  const uint64_t end = (uint64_t{fragment.value} + 1) * inner_steps_ / fragments_;
  return static_cast<uint32_t>((end + inner_steps_ - overlap_steps_) % inner_steps_);
}

bool SyncSchedule::IsSendStep(FragmentIndex fragment, uint64_t step) const {
  return step >= 1 && step % inner_steps_ == OffsetOf(fragment);
}

uint64_t SyncSchedule::NextSendStep(FragmentIndex fragment, uint64_t step) const {
  const uint64_t from = step == 0 ? 1 : step;
  const uint64_t phase = from % inner_steps_;
  return from + (OffsetOf(fragment) + inner_steps_ - phase) % inner_steps_;
}

}  // namespace atl
