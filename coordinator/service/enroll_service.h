// WorkerService of the enrolment listener: Enroll only.
#ifndef ATOLL_COORDINATOR_SERVICE_ENROLL_SERVICE_H_
#define ATOLL_COORDINATOR_SERVICE_ENROLL_SERVICE_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "coordinator/service/enrollment.h"

namespace atl {

// `enrollment` must outlive the service, the service its server.
std::unique_ptr<grpc::Service> MakeEnrollService(Enrollment& enrollment);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_ENROLL_SERVICE_H_
