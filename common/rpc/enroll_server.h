// SPDX-License-Identifier: Apache-2.0
// The enrolment port: POST /v1/enroll with an EnrollRequest, answered with an EnrollResponse or an EnrollFailure.
#ifndef ATOLL_COMMON_RPC_ENROLL_SERVER_H_
#define ATOLL_COMMON_RPC_ENROLL_SERVER_H_

#include <functional>
#include <string>

#include "atoll/v1/worker.pb.h"
#include "common/base/status.h"
#include "common/guard/https_exchange.h"

namespace atl {

using EnrollAnswer = std::function<void(const absl::Status& status, const v1::EnrollResponse& response)>;
// Answers once, on any thread. `address`: of the caller, without its port. Must not wait.
using Enroller = std::function<void(const v1::EnrollRequest& request, const std::string& address, EnrollAnswer answer)>;

guard::HttpHandler MakeEnrollHandler(Enroller enroller);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_ENROLL_SERVER_H_
