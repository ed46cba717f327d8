// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/rounds_at_start.h"

#include "common/plan/model_layout.h"
#include "coordinator/store/held_rounds.h"

namespace atl {

absl::StatusOr<RoundsAtStart> ReadRoundsAtStart(RoundLog& log, const Files& files, const DataDirectory& directory,
                                                const Ledger& ledger, RecoveredState& state) {
  std::map<JobId, Digest> layouts;
  for (const RecoveredJob& job : state.jobs) {
    const JobSpec& spec = job.job.spec;
    if (!HasEnded(job.job.state))
      layouts[job.job.job] = MakeModelLayout(spec.model, spec.sync.pattern, spec.sync.layers_per_fragment).digest;
  }
  RoundsAtStart found;
  found.unusable = AddAccepted(log, layouts, state, &found.cut);
  ATOLL_ASSIGN_OR_RETURN(found.damaged, CheckHeldRounds(files, directory, ledger, state));
  return found;
}

}  // namespace atl
