// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/used_up.h"

#include <algorithm>

namespace atl {
namespace {

bool Waits(const Run& run, const Member& member) {
  return member.Trains(run.id()) && !member.lost() && member.stage() == Stage::kTraining &&
         member.heartbeat().activity == WorkerActivity::kWaiting;
}

}  // namespace

void MarkUsedUp(Run& run, const Fleet& fleet) {
  run.used_up.clear();
  if (run.record.state != JobState::kRunning || run.pool.Unleased() > 0) return;
  for (const auto& [id, member] : fleet.Of(run.id())) {
    if (Waits(run, member) && member.wish()) run.used_up.insert(id);
  }
  if (run.used_up.empty()) return;
  for (const WorkerId& id : run.pool.Holders({})) run.used_up.erase(id);
  for (const WorkerId& id : run.used_up) {
    for (Round& round : run.rounds) round.PassFinished(id);
  }
}

bool DataIsTrained(const Run& run, const Fleet& fleet) {
  if (run.pool.Unleased() > 0) return false;
  bool in_vain = false;
  for (const auto& [id, member] : fleet.Of(run.id())) {
    if (!member.Trains(run.id()) || member.lost()) continue;
    if (!Waits(run, member)) return false;
    in_vain = in_vain || member.wish();
  }
  if (!in_vain) return false;
  const uint64_t stop = run.spec->stop.inner_steps;
  const std::set<WorkerId> holders = run.pool.Holders(run.AcceptedCursors());
  return std::all_of(holders.begin(), holders.end(), [&](const WorkerId& id) {
    const Member* member = fleet.Find(id);
    return stop > 0 && member != nullptr && Waits(run, *member) && member->step() >= stop;
  });
}

bool HeldInVain(const Run& run, Duration limit, Instant now) {
  if (run.used_up.empty()) return false;
  const Duration most = !run.HasUploads() ? limit : limit * 2;
  return std::all_of(run.rounds.begin(), run.rounds.end(),
                     [&](const Round& round) { return !round.closing() && round.opened() + most <= now; });
}

}  // namespace atl
