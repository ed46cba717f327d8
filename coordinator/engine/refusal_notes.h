// SPDX-License-Identifier: Apache-2.0
// Which refused contributions get a line of the event log: there may be many, and most repeat one another. A worker's
// refusal with a status code is told at once, then again after kRefusalsQuiet at the earliest, with the number of those
// between, of whichever job. What is ordinary gets none: lateness, and that a worker is to ask again. Lives on the
// engine thread.
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
// Lines in such a time, of all: whoever makes names up fills no log.
constexpr size_t kRefusalsTold = 64;

constexpr char kUploadRefused[] = "upload refused";  // JobNote::kind

// What atoll_contributions_rejected_total counts it as: "late", else the status code.
std::string RefusalReason(const absl::Status& status);

// Of a conversation that broke: what was sent is to blame, or what was to keep it, and not the way between the two.
bool IsRefusal(const absl::Status& status);

class RefusalNotes {
 public:
  // The line that is due, if any.
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
