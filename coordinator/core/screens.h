// SPDX-License-Identifier: Apache-2.0
// Strikes: what a worker's refused and clipped contributions add up to (docs/design.md section 6, "Screens"). Which
// contributions those are is measured elsewhere; here are only counts, so that the decision needs no floating point.
// Pure; owned by the engine thread.
#ifndef ATOLL_COORDINATOR_CORE_SCREENS_H_
#define ATOLL_COORDINATOR_CORE_SCREENS_H_

#include <cstdint>
#include <map>
#include <string>

#include "common/base/ids.h"
#include "common/plan/records.h"

namespace atl {

// One job's. A strike is a contribution to a fragment that was refused or clipped; one that is merged whole clears
// those of its worker in that fragment. Counted by fragment: a worker that is broken in one of many shows it all the
// same.
class StrikeBook {
 public:
  // Counts one, for the reason (one clause), and says how many there are running now.
  uint32_t Strike(const WorkerId& worker, FragmentIndex fragment, const std::string& why);
  void Clear(const WorkerId& worker, FragmentIndex fragment);
  // Of every fragment.
  void Forget(const WorkerId& worker) { strikes_.erase(worker); }
  uint32_t Running(const WorkerId& worker, FragmentIndex fragment) const;
  // "2 strikes in fragment 0 (quarantined at 3), the newest: WHY", of the fragment with the most; empty without any.
  // `limit` 0: nobody is quarantined.
  std::string LineOf(const WorkerId& worker, uint32_t limit) const;

 private:
  struct Strikes {
    uint32_t running = 0;
    std::string newest;
  };
  std::map<WorkerId, std::map<FragmentIndex, Strikes>> strikes_;
};

// What a quarantined worker, and whoever asks for it, is told: why, and the way back.
std::string QuarantineLine(const WorkerRecord& worker);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_SCREENS_H_
