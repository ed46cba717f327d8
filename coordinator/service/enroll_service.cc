#include "coordinator/service/enroll_service.h"

#include <string>
#include <utility>

#include "atoll/v1/worker.grpc.pb.h"
#include "common/base/host_port.h"
#include "common/rpc/rpc_status.h"

namespace atl {
namespace {

class EnrollService final : public v1::WorkerService::CallbackService {
 public:
  explicit EnrollService(Enrollment& enrollment) : enrollment_(enrollment) {}
  grpc::ServerUnaryReactor* Enroll(grpc::CallbackServerContext* context, const v1::EnrollRequest* request,
                                   v1::EnrollResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    // Of who calls: one has many ports.
    enrollment_.Enroll(*request, WithoutPort(context->peer()),
                       [reactor, response](const absl::Status& status, v1::EnrollResponse answer) {
                         if (status.ok()) *response = std::move(answer);
                         reactor->Finish(ToGrpc(status));
                       });
    return reactor;
  }

 private:
  Enrollment& enrollment_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeEnrollService(Enrollment& enrollment) {
  return std::make_unique<EnrollService>(enrollment);
}

}  // namespace atl
