// SPDX-License-Identifier: Apache-2.0
// Backs up a simulated coordinator's state while the coordinator runs, as `atoll-coordinator
// backup` does, and restores a backup, as `atoll-coordinator restore` does. A restore loses later
// commits; contributions that workers computed from lost versions must not be merged.
#ifndef ATOLL_TESTS_SIM_BACKUPS_H_
#define ATOLL_TESTS_SIM_BACKUPS_H_

#include <cstdint>
#include <vector>

#include "common/base/random.h"
#include "tests/sim/world.h"

namespace atl {

class Backups {
 public:
  explicit Backups(uint64_t seed) : rng_(StreamKey(seed, "backups")) {}
  // Draws one action: a backup, a restore (no coordinator runs afterwards), or nothing. Returns the
  // action's name, or null.
  const char* Play(World& world);

 private:
  Rng rng_;
  std::vector<World::Copy> copies_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_BACKUPS_H_
