// SPDX-License-Identifier: Apache-2.0
// Findings of a check before joining, one line each. Plain values.
#ifndef ATOLL_COMMON_PREFLIGHT_FINDING_H_
#define ATOLL_COMMON_PREFLIGHT_FINDING_H_

#include <functional>
#include <string>

#include "common/base/status.h"

namespace atl {

// kWarning: it works, but not well. kFailed: it does not work.
enum class Verdict { kGood, kWarning, kFailed };
const char* VerdictName(Verdict verdict);  // "ok", "warning", "failed"

struct Finding {
  Verdict verdict = Verdict::kGood;
  std::string check;     // one word, such as "identity", "reach", "tls", "coordinator", "renewal", "clock" or "link"
  std::string sentence;  // the observation and, unless it is good, advice
};

// Receives each finding as soon as it is known, because some take seconds.
using TellFinding = std::function<void(const Finding&)>;

// "ok       reach        10.0.0.7:7070 answers in 2.1 ms", without line feed.
std::string FindingLine(const Finding& finding);

// Returns a failed finding with the status's message.
Finding FailedFinding(std::string check, const absl::Status& status);

}  // namespace atl

#endif  // ATOLL_COMMON_PREFLIGHT_FINDING_H_
