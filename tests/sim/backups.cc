// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/backups.h"

#include <utility>

namespace atl {
namespace {

constexpr size_t kCopies = 3;

}  // namespace

const char* Backups::Play(World& world) {
  const uint64_t way = rng_.Below(8);
  const uint64_t which = rng_.Below(kCopies);
  if (way < 3 && world.coordinator_runs() && !world.files().dead()) {
    World::Copy copy = world.BackUp();
    if (copies_.size() < kCopies) {
      copies_.push_back(std::move(copy));
    } else {
      copies_[which] = std::move(copy);
    }
    return "operator: a backup is made";
  }
  if (way != 7 || copies_.empty()) return nullptr;
  world.Restore(copies_[which % copies_.size()]);
  return "operator: a backup is restored";
}

}  // namespace atl
