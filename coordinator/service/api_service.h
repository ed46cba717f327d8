// SPDX-License-Identifier: Apache-2.0
// JobService and AdminService over gRPC: reactors that hand requests to JobApi and answers back. No logic of their own.
#ifndef ATOLL_COORDINATOR_SERVICE_API_SERVICE_H_
#define ATOLL_COORDINATOR_SERVICE_API_SERVICE_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "coordinator/service/call_guard.h"
#include "coordinator/service/enrollment.h"
#include "coordinator/service/job_api.h"

namespace atl {

// The arguments must outlive the services, and the services their server. `enrollment` null: calls about tokens
// and revocations fail with FailedPrecondition. `guard` gets the outcome of unary calls with an identity.
std::unique_ptr<grpc::Service> MakeJobService(JobApi& api, CallGuard& guard);
std::unique_ptr<grpc::Service> MakeAdminService(JobApi& api, Enrollment* enrollment, CallGuard& guard);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_API_SERVICE_H_
