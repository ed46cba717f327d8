// SPDX-License-Identifier: Apache-2.0
// Handles workers that miss rounds, and fragments that lack a quorum because of them while others go on.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/core/explain.h"
#include "coordinator/core/machine.h"

namespace atl {

void Machine::NoteWhoTookPart(Run& run, FragmentIndex fragment, bool enough) {
  const Round& round = run.rounds[fragment.value];
  for (const auto& [id, arrival] : round.accepted) run.misses.TookPart(fragment, id);
  for (const auto& [id, drop] : round.dropped) run.misses.TookPart(fragment, id);
  for (const WorkerId& id : MissingOf(round)) {
    const bool was = run.PassesOver(fragment, id);
    const uint32_t missed = run.misses.Missed(fragment, id);
    if (was || !run.PassesOver(fragment, id)) continue;
    Note(run.id(), "worker passed over",
         absl::StrCat("worker ", id.value, " has missed ", missed, " rounds of fragment ", fragment.value,
                      " running: none waits for it until it contributes again, unless the others do not suffice"),
         {{"worker", id.value}, {"fragment", absl::StrCat(fragment.value)}});
  }
  VersionVector versions = run.Versions();
  const uint64_t front = FrontOf(versions);
  --versions[fragment.value].value;
  const uint64_t before = FrontOf(versions);
  // A starved fragment stays starved until one of its rounds has had as many workers as the job needs.
  if (enough || !run.IsStarved(fragment, before)) run.progress.Committed(fragment, front);
  for (uint32_t p = 0; p < versions.size(); ++p) {
    const FragmentIndex other{p};
    if (!run.IsStarved(other, front)) continue;
    // A member that contributes to one fragment only would leave the rounds of the others without a
    // majority forever.
    Round& lacking = run.rounds[p];
    for (const WorkerId& id : lacking.closing ? std::vector<WorkerId>{} : MissingOf(lacking)) {
      const bool sends = run.IsUploading(id, other);
      if (sends || !round.accepted.contains(id) || lacking.expected.size() <= run.LeastExpected()) continue;
      while (!run.PassesOver(other, id)) run.misses.Missed(other, id);
      lacking.expected.erase(id);
      Note(run.id(), "worker passed over",
           absl::StrCat("worker ", id.value, " contributes to others and not to fragment ", p,
                        ", which is starved: none of its rounds waits for it until it contributes again"),
           {{"worker", id.value}, {"fragment", absl::StrCat(p)}});
    }
    if (run.IsStarved(other, before)) continue;
    Note(run.id(), "fragment starved", StarvedLine(run, fleet_), {{"fragment", absl::StrCat(p)}});
  }
}

}  // namespace atl
