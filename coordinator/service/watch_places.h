// SPDX-License-Identifier: Apache-2.0
// Who watches jobs, by certificate: a coordinator serves limits::kWatchers of them, which nobody may take alone.
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

// Thread-safe. Outlived by the places that it gave.
class WatchPlaces {
 public:
  static constexpr uint32_t kOfOne = 32;
  // Given back by its last holder.
  using Place = std::shared_ptr<const void>;
  // ResourceExhausted while the caller has kOfOne. Who shows no certificate is not counted.
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
