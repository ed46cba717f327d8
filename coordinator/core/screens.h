// SPDX-License-Identifier: Apache-2.0
// Strikes: the count of a worker's refused and clipped contributions (docs/design.md section 6,
// "Screens"). The measurements are made elsewhere. Here are only counts, so that the decision needs
// no floating point. Pure; owned by the engine thread.
#ifndef ATOLL_COORDINATOR_CORE_SCREENS_H_
#define ATOLL_COORDINATOR_CORE_SCREENS_H_

#include <cstdint>
#include <map>
#include <string>

#include "common/base/ids.h"
#include "common/plan/records.h"

namespace atl {

// The strikes of one job. A strike is a refused or clipped contribution to a fragment; a
// contribution merged without change clears the strikes of its worker in that fragment. Counted by
// fragment, so that a worker that is broken in one of many is detected too.
class StrikeBook {
 public:
  // Counts one strike, for the reason (one clause), and returns the number of consecutive ones.
  uint32_t Strike(const WorkerId& worker, FragmentIndex fragment, const std::string& why);
  void Clear(const WorkerId& worker, FragmentIndex fragment);
  // Clears the strikes of the worker in every fragment.
  void Forget(const WorkerId& worker) { strikes_.erase(worker); }
  uint32_t Running(const WorkerId& worker, FragmentIndex fragment) const;
  // "2 strikes in fragment 0 (quarantined at 3), the newest: WHY", for the fragment with the most;
  // empty without any. `limit` 0: no worker is quarantined.
  std::string LineOf(const WorkerId& worker, uint32_t limit) const;

 private:
  struct Strikes {
    uint32_t running = 0;
    std::string newest;
  };
  std::map<WorkerId, std::map<FragmentIndex, Strikes>> strikes_;
};

// The message for a quarantined worker, and for people: the reason, and how to readmit it.
std::string QuarantineLine(const WorkerRecord& worker);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_SCREENS_H_
