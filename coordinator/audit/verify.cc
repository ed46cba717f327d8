// SPDX-License-Identifier: Apache-2.0
#include "coordinator/audit/verify.h"

#include "absl/strings/str_cat.h"
#include "coordinator/audit/files_checks.h"
#include "coordinator/audit/ledger_checks.h"
#include "coordinator/audit/ledger_reader.h"
#include "coordinator/audit/state_paths.h"
#include "coordinator/audit/trail_checks.h"

namespace atl::audit {

absl::Status VerifyState(const Place& place, Report& report) {
  ATOLL_ASSIGN_OR_RETURN(const StateFiles state, ListState(place.files, place.root, report));
  ATOLL_ASSIGN_OR_RETURN(const std::optional<LedgerImage> image,
                         ReadLedger(place.ledger_files, place.ledger, report, CheckingRounds(state, report)));
  CheckBlobs(place.files, state, report);
  CheckTrail(place.files, place.root, report);
  if (!image) return absl::OkStatus();
  CheckNeededBlobs(place.root, *image, state, report);
  const std::map<JobId, JobStanding> standings = CheckLedger(*image, report);
  const JobFiles none;
  for (const auto& [id, standing] : standings) {
    if (IsPurged(*standing.job)) continue;
    const auto found = state.jobs.find(id.value);
    CheckJobFiles(place.files, place.root, image->boot, standing, found == state.jobs.end() ? none : found->second,
                  report);
  }
  for (const auto& [name, files] : state.jobs) {
    if (standings.contains(JobId{name})) continue;
    report.Damage({DataDirectory(place.root).JobDirectory({name}), std::nullopt, name, "the ledger knows no such job",
                   "the ledger comes from an older copy: put the whole state directory back from one backup"});
  }
  return absl::OkStatus();
}

}  // namespace atl::audit
