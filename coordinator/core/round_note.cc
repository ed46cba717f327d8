// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/round_note.h"

#include "absl/strings/str_cat.h"
#include "coordinator/core/rounds.h"
#include "coordinator/core/run.h"

namespace atl {

JobNote RoundCommittedNote(const RoundRecord& record) {
  std::vector<WorkerId> contributors;
  uint64_t bytes = 0;
  for (const CommittedContribution& c : record.contributions) {
    contributors.push_back(c.header.worker);
    bytes += c.header.encoded_bytes;
  }
  const std::string members = ListOf(contributors);
  const std::string dropped = record.dropped.empty() ? "" : ListOf(record.dropped);
  return {record.job,
          kRoundCommitted,
          absl::StrCat("version ", record.reached.version.value, " of fragment ", record.reached.fragment.value,
                       " with ", members, record.dropped.empty() ? "" : absl::StrCat("; dropped: ", dropped)),
          {{"fragment", absl::StrCat(record.reached.fragment.value)},
           {"version", absl::StrCat(record.reached.version.value)},
           {"epoch", absl::StrCat(record.epoch)},
           {"members", members},
           {"dropped", dropped},
           {"tokens", absl::StrCat(record.tokens)},
           {"upload_bytes", absl::StrCat(bytes)},
           {"update_bytes", absl::StrCat(record.update_bytes)},
           {"clock_step", absl::StrCat(record.clock_step)},
           {"hash", record.hash.Hex()}}};
}

JobNote StateNote(const JobId& job, JobState state, const std::string& reason) {
  return {job,
          "state",
          absl::StrCat("job ", job.value, " is ", NameOf(state), reason.empty() ? "" : ": ", reason),
          {{"state", NameOf(state)}}};
}

}  // namespace atl
