// SPDX-License-Identifier: Apache-2.0
// Classifies the failure of a transfer: whether a retry may help. Pure.
#ifndef ATOLL_COMMON_RPC_TRANSFER_FAILURE_H_
#define ATOLL_COMMON_RPC_TRANSFER_FAILURE_H_

#include "common/base/status.h"

namespace atl {

enum class TransferFailure {
  kFinal,   // no retry helps
  kOutage,  // not caused by the bytes: the coordinator or the network is down or busy; retry
  kBroken,  // unreadable at the coordinator, damaged on arrival, or unknown: a retry may help
};

// Number of consecutive kBroken attempts without progress, after which the failure is final.
constexpr int kDownloadAttempts = 8;

// Cancelled counts as an outage of the network: a caller that cancels a transfer knows that it did.
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
