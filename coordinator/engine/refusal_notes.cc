// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/refusal_notes.h"

#include "absl/strings/str_cat.h"
#include "coordinator/core/lateness.h"

namespace atl {

std::string RefusalReason(const absl::Status& status) {
  return IsLate(status) ? "late" : absl::StatusCodeToString(status.code());
}

bool IsRefusal(const absl::Status& status) {
  return !status.ok() && !absl::IsCancelled(status) && !absl::IsUnavailable(status) &&
         !absl::IsDeadlineExceeded(status);
}

std::optional<JobNote> RefusalNotes::OnRefused(const JobId& job, const WorkerId& worker, const absl::Status& status,
                                               Instant now) {
  if (IsLate(status) || absl::IsUnavailable(status)) return std::nullopt;
  const auto key = std::pair(worker, status.code());
  auto it = told_.find(key);
  if (it == told_.end() && told_.size() >= kRefusalsTold)
    std::erase_if(told_, [now](const auto& told) { return now - told.second.at >= kRefusalsQuiet; });
  if (it == told_.end() && told_.size() >= kRefusalsTold) return std::nullopt;
  if (it == told_.end()) {
    it = told_.try_emplace(key).first;
  } else if (now - it->second.at < kRefusalsQuiet) {
    ++it->second.since;
    return std::nullopt;
  }
  const uint64_t since = std::exchange(it->second, {now, 0}).since;
  return JobNote{
      job,
      kUploadRefused,
      absl::StrCat("a contribution of worker ", worker.value, " is refused: ", status.message(),
                   since == 0 ? "" : absl::StrCat("; so were ", since, " since the previous line")),
      {{"worker", worker.value}, {"reason", RefusalReason(status)}, {"since_line_before", absl::StrCat(since)}}};
}

}  // namespace atl
