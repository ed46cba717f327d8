// SPDX-License-Identifier: Apache-2.0
// Limits the watchers of one certificate: a coordinator serves limits::kWatchers, and no client may
// take them all.
#ifndef ATOLL_COORDINATOR_SERVICE_WATCH_PLACES_H_
#define ATOLL_COORDINATOR_SERVICE_WATCH_PLACES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/trust/identity.h"

namespace atl {

// Thread-safe. A Place may outlive it.
class WatchPlaces {
 public:
  static constexpr uint32_t kOfOne = 32;
  // A place that the destruction of the last copy releases.
  using Place = std::shared_ptr<const void>;
  // ResourceExhausted while the caller has kOfOne places. Callers without a certificate are not counted.
  absl::StatusOr<Place> Take(const std::optional<Identity>& caller);

 private:
  struct Taken {
    Mutex mutex;
    std::map<std::string, uint32_t> of ATOLL_GUARDED_BY(mutex);
  };
  const std::shared_ptr<Taken> taken_ = std::make_shared<Taken>();
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_WATCH_PLACES_H_
