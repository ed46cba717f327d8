// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/lateness.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace atl {
namespace {

constexpr char kLate[] = "late: ";

}  // namespace

absl::Status LateError(const std::string& why) { return absl::FailedPreconditionError(absl::StrCat(kLate, why)); }

bool IsLate(const absl::Status& refusal) {
  return absl::IsFailedPrecondition(refusal) && absl::StartsWith(refusal.message(), kLate);
}

}  // namespace atl
