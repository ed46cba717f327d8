// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/watch_places.h"

#include "common/base/status.h"
#include "coordinator/service/call_guard.h"

namespace atl {

absl::StatusOr<WatchPlaces::Place> WatchPlaces::Take(const std::optional<Identity>& caller) {
  if (!caller) return Place();
  const std::string who = Who(*caller);
  const MutexLock lock(taken_->mutex);
  uint32_t& count = taken_->of[who];
  if (count >= kOfOne) {
    return absl::ResourceExhaustedError(
        absl::StrCat(who, " watches jobs and follows logs ", kOfOne,
                     " times, the limit of one identity; end one of them, or use 'atoll job get'"));
  }
  ++count;
  return Place(taken_.get(), [taken = taken_, who](const void*) {
    const MutexLock of_release(taken->mutex);
    if (--taken->of[who] == 0) taken->of.erase(who);
  });
}

}  // namespace atl
