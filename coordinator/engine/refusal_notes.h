// SPDX-License-Identifier: Apache-2.0
// Selects the refused contributions that get a line in the event log; most refusals repeat one
// another. The first refusal of a worker with a status code gets a line at once. The next line
// comes after kRefusalsQuiet at the earliest, with the number of refusals since, over all jobs.
// Ordinary refusals get no line: lateness, and requests to retry. Lives on the engine thread.
#ifndef ATOLL_COORDINATOR_ENGINE_REFUSAL_NOTES_H_
#define ATOLL_COORDINATOR_ENGINE_REFUSAL_NOTES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "coordinator/core/events.h"

namespace atl {

constexpr Duration kRefusalsQuiet = Seconds(600);
// Limit of lines in kRefusalsQuiet, over all workers: a sender that invents names cannot fill the log.
constexpr size_t kRefusalsTold = 64;

constexpr char kUploadRefused[] = "upload refused";  // JobNote::kind

// The reason label of atoll_contributions_rejected_total: "late", else the status code.
std::string RefusalReason(const absl::Status& status);

// Whether a broken upload was refused for its data or their storage, and did not just lose its connection.
bool IsRefusal(const absl::Status& status);

class RefusalNotes {
 public:
  // Counts a refusal, and returns the line that is due now, if any.
  std::optional<JobNote> OnRefused(const JobId& job, const WorkerId& worker, const absl::Status& status, Instant now);

 private:
  struct Told {
    Instant at;
    uint64_t since = 0;  // refusals without a line
  };
  std::map<std::pair<WorkerId, absl::StatusCode>, Told> told_;  // at most kRefusalsTold
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_REFUSAL_NOTES_H_
