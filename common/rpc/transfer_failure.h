// SPDX-License-Identifier: Apache-2.0
// What the end of a transfer says about another try of it. Pure.
#ifndef ATOLL_COMMON_RPC_TRANSFER_FAILURE_H_
#define ATOLL_COMMON_RPC_TRANSFER_FAILURE_H_

#include "common/base/status.h"

namespace atl {

enum class TransferFailure {
  kFinal,   // the answer stands: no try mends it
  kOutage,  // nothing is said about the bytes: the coordinator is away, is not ready, or serves others first
  kBroken,  // it could not be read there, came damaged, or nobody knows: another try may mend it, or none
};

// Tries of what is kBroken, one after another and without progress; then it is final.
constexpr int kDownloadAttempts = 8;

// Cancelled: by what lies between. Whoever cancels a transfer knows.
inline TransferFailure FailureOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable: return TransferFailure::kOutage;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kUnimplemented: return TransferFailure::kFinal;
    default: return TransferFailure::kBroken;
  }
}

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_TRANSFER_FAILURE_H_
