// SPDX-License-Identifier: Apache-2.0
// The enrolment port: answers POST /v1/enroll with an EnrollResponse or an EnrollFailure.
#ifndef ATOLL_COMMON_RPC_ENROLL_SERVER_H_
#define ATOLL_COMMON_RPC_ENROLL_SERVER_H_

#include <functional>
#include <string>

#include "atoll/v1/worker.pb.h"
#include "common/base/status.h"
#include "common/guard/https_exchange.h"

namespace atl {

using EnrollAnswer = std::function<void(const absl::Status& status, const v1::EnrollResponse& response)>;
// Must not block, and must call `answer` exactly once, on any thread. `address`: the caller's, without port.
using Enroller = std::function<void(const v1::EnrollRequest& request, const std::string& address, EnrollAnswer answer)>;

guard::HttpHandler MakeEnrollHandler(Enroller enroller);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_ENROLL_SERVER_H_
