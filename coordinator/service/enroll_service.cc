#include "coordinator/service/enroll_service.h"

#include <string>
#include <utility>

#include "atoll/v1/worker.grpc.pb.h"
#include "common/rpc/rpc_status.h"

namespace atl {
namespace {

// "ipv4:10.0.0.7" of "ipv4:10.0.0.7:40112": a caller has many ports.
std::string WithoutPort(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

class EnrollService final : public v1::WorkerService::CallbackService {
 public:
  explicit EnrollService(Enrollment& enrollment) : enrollment_(enrollment) {}
  grpc::ServerUnaryReactor* Enroll(grpc::CallbackServerContext* context, const v1::EnrollRequest* request,
                                   v1::EnrollResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
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
