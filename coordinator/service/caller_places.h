// SPDX-License-Identifier: Apache-2.0
// Limits the calls that one identity has in progress: no client may take all of what the coordinator serves at once,
// or fill a queue that others wait in.
#ifndef ATOLL_COORDINATOR_SERVICE_CALLER_PLACES_H_
#define ATOLL_COORDINATOR_SERVICE_CALLER_PLACES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/trust/identity.h"

namespace atl {

// Thread-safe. A Place may outlive it.
class CallerPlaces {
 public:
  static constexpr uint32_t kWatchesOfOne = 32;  // of limits::kWatchers
  static constexpr uint32_t kJobsOfOne = 4;      // calls that read a job's files, served one after the other
  // `doing`, `help`: parts of the error message "operator/ann DOING 32 times, the limit of one identity; HELP".
  CallerPlaces(uint32_t of_one, std::string doing, std::string help)
      : of_one_(of_one), doing_(std::move(doing)), help_(std::move(help)) {}
  // A place that the destruction of the last copy releases.
  using Place = std::shared_ptr<const void>;
  // ResourceExhausted while the caller has `of_one` places. Callers without a certificate are not counted.
  absl::StatusOr<Place> Take(const std::optional<Identity>& caller);

 private:
  const uint32_t of_one_;
  const std::string doing_, help_;
  struct Taken {
    Mutex mutex;
    std::map<std::string, uint32_t> of ATOLL_GUARDED_BY(mutex);
  };
  const std::shared_ptr<Taken> taken_ = std::make_shared<Taken>();
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_CALLER_PLACES_H_
