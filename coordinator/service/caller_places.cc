// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/caller_places.h"

#include "common/base/status.h"
#include "coordinator/service/call_guard.h"

namespace atl {

absl::StatusOr<CallerPlaces::Place> CallerPlaces::Take(const std::optional<Identity>& caller) {
  if (!caller) return Place();
  const std::string who = Who(*caller);
  const MutexLock lock(taken_->mutex);
  uint32_t& count = taken_->of[who];
  if (count >= of_one_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(who, " ", doing_, " ", of_one_, " times, the limit of one identity; ", help_));
  }
  ++count;
  return Place(taken_.get(), [taken = taken_, who](const void*) {
    const MutexLock of_release(taken->mutex);
    if (--taken->of[who] == 0) taken->of.erase(who);
  });
}

}  // namespace atl
