// SPDX-License-Identifier: Apache-2.0
// Converts absl::Status to and from grpc::Status with google.rpc.ErrorInfo: a machine-readable
// reason in addition to the message (AIP-193). Pure functions.
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

// Returns the same status with `info` attached. OK stays OK.
absl::Status WithErrorInfo(absl::Status status, const ErrorInfo& info);
std::optional<ErrorInfo> ErrorInfoOf(const absl::Status& status);
absl::Status WithViolations(absl::Status status, const std::vector<FieldViolation>& violations);
std::vector<FieldViolation> ViolationsOf(const absl::Status& status);

// Codes map one to one. Details are converted in both directions. ToGrpc cuts texts to the size of gRPC's
// trailers, and gives a status without ErrorInfo one with the code's name as its reason.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_RPC_STATUS_H_
