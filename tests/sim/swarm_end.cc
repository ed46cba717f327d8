// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/swarm_end.h"

#include "tests/sim/state_on_disk.h"

namespace atl {

std::string StandingOf(World& world, const std::vector<JobId>& jobs) {
  std::string text;
  for (const std::string& name : world.workers()) {
    const worker::Core& core = world.session(name)->core();
    absl::StrAppend(&text, name, ": ", core.waiting_for(world.clock().Now()), "; clock ", core.clock_step());
    for (const worker::FragmentStatus& f : core.fragments())
      absl::StrAppend(&text, "; version ", f.applied.value, f.contribution_held ? " held" : "",
                      f.contribution_accepted ? " accepted" : "", " missed ", f.missed, " behind ", f.steps_behind);
    absl::StrAppend(&text, "\n");
  }
  for (const JobId& job : jobs) {
    const std::string path = absl::StrCat("/state/events/", job.value, ".jsonl");
    if (!world.files().Exists(path)) continue;
    const auto events = ReadWholeFile(world.files(), path, 1 << 30);
    if (events.ok()) absl::StrAppend(&text, *events);
  }
  return text;
}

std::string UnendedJobs(World& world, const std::vector<JobId>& jobs) {
  std::string lines;
  for (const JobId& job : jobs) {
    const auto view = world.View(job);
    if (!view) absl::StrAppend(&lines, job.value, ": unknown. ");
    if (view && !HasEnded(view->record.state))
      absl::StrAppend(&lines, job.value, " (state ", static_cast<int>(view->record.state), ", alive ", view->alive,
                      ", training ", view->training, "): ", view->waiting_line, " ", view->record.reason, ". ");
  }
  return lines;
}

void AuditLeft(World& world) {
  if (world.coordinator_runs()) world.KillCoordinator(Death::kPowerCut);
  const StateOnDisk state(world.files(), world.sqlite() ? nullptr : &world.ledger_disk());
  const audit::Report verify = state.Verify();
  if (!verify.ok()) return world.laws().Break(absl::StrCat("verify: ", verify.Text()));
  const audit::Report replay = state.Replay();
  if (!replay.ok()) world.laws().Break(absl::StrCat("replay: ", replay.Text()));
}

}  // namespace atl
