// SPDX-License-Identifier: Apache-2.0
// absl::Status <-> grpc::Status with google.rpc.ErrorInfo: a machine-readable reason beside the sentence (AIP-193).
// Pure functions, safe everywhere.
#ifndef ATOLL_COMMON_RPC_RPC_STATUS_H_
#define ATOLL_COMMON_RPC_RPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"

namespace atl {

constexpr char kErrorDomain[] = "atoll.v1";

struct ErrorInfo {
  std::string reason;                           // UPPER_SNAKE: "STALE_INCARNATION"
  std::map<std::string, std::string> metadata;  // e.g. {"have", "3"}, {"want", "4"}
};
// One wrong field of a request (google.rpc.BadRequest).
struct FieldViolation {
  std::string field;        // "spec.sync.inner_steps"
  std::string description;  // one sentence
};

// The same status carrying `info`. OK stays OK.
absl::Status WithErrorInfo(absl::Status status, const ErrorInfo& info);
std::optional<ErrorInfo> ErrorInfoOf(const absl::Status& status);
absl::Status WithViolations(absl::Status status, const std::vector<FieldViolation>& violations);
std::vector<FieldViolation> ViolationsOf(const absl::Status& status);

// Codes map one to one; messages above limits::kTextBytes are cut; details travel both ways. A status without ErrorInfo
// gets one whose reason is the code's name.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

// Whether the same call may succeed later without anything being changed: UNAVAILABLE, and DEADLINE_EXCEEDED of a
// connection.
bool IsRetryable(const absl::Status& status);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_RPC_STATUS_H_
