// SPDX-License-Identifier: Apache-2.0
#include "common/preflight/finding.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace atl {

const char* VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood: return "ok";
    case Verdict::kWarning: return "warning";
    case Verdict::kFailed: return "failed";
  }
  return "failed";
}

std::string FindingLine(const Finding& finding) {
  std::string line = absl::StrFormat("%-8s %-12s %s", VerdictName(finding.verdict), finding.check, finding.sentence);
  // Messages of the remote end must not control the terminal.
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return line;
}

Finding FailedFinding(std::string check, const absl::Status& status) {
  return {Verdict::kFailed, std::move(check), std::string(status.message())};
}

}  // namespace atl
