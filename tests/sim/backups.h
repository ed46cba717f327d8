// SPDX-License-Identifier: Apache-2.0
// Copies of a simulated coordinator's state, as `atoll-coordinator backup` makes them while it runs, and the way back
// to one of them, as an operator goes after `atoll-coordinator restore`: what was committed since is lost, and what
// workers hold of it must not be merged.
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
  // Makes a copy, goes back to one, after which no coordinator runs, or does neither: what that is called, or null.
  const char* Play(World& world);

 private:
  Rng rng_;
  std::vector<World::Copy> copies_;
};

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_BACKUPS_H_
