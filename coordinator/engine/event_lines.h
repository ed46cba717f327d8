// SPDX-License-Identifier: Apache-2.0
// Names in the lines of a job's event log that the coordinator reads back.
#ifndef ATOLL_COORDINATOR_ENGINE_EVENT_LINES_H_
#define ATOLL_COORDINATOR_ENGINE_EVENT_LINES_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/numbers.h"

namespace atl {

constexpr char kRolledBack[] = "rolled back";  // JobNote::kind
constexpr char kStateReached[] = "state";      // JobNote::kind, and a field of that name
constexpr const char* kLossCurve = "loss";
constexpr const char* kUploadedField = "uploaded_bytes_total";
constexpr const char* kDownloadedField = "downloaded_bytes_total";
constexpr const char* kFromLedgerField = "from_ledger";  // the line was written at a restart

// 0 if the field is missing or not a number.
inline uint64_t NumberOf(const std::map<std::string, std::string>& fields, const char* key) {
  uint64_t value = 0;
  const auto it = fields.find(key);
  if (it != fields.end() && !absl::SimpleAtoi(it->second, &value)) value = 0;
  return value;
}

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_EVENT_LINES_H_
