// SPDX-License-Identifier: Apache-2.0
// A call with one message, empty by default, for tests of the layers below the calls.
#ifndef ATOLL_TESTS_UNIT_COMMON_RPC_ONE_CALL_H_
#define ATOLL_TESTS_UNIT_COMMON_RPC_ONE_CALL_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <memory>
#include <string>

#include "common/base/time.h"
#include "common/rpc/channel.h"
#include "common/rpc/tls.h"

namespace atl {

constexpr Duration kPatience = Seconds(60);

inline grpc::Status OneCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                            bool wait_for_ready = false, const std::string& message = {}) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_wait_for_ready(wait_for_ready);
  SetDeadline(context, kPatience);
  grpc::CompletionQueue queue;
  const grpc::Slice bytes(message);
  const grpc::ByteBuffer request(&bytes, 1);
  grpc::ByteBuffer response;
  grpc::Status status;
  const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

constexpr char kHealthMethod[] = "/grpc.health.v1.Health/Check";

// Shows no certificate and accepts only a coordinator of that authority (PEM).
inline ChannelSecurity PinnedTlsChannel(const std::string& authority_pem) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::make_shared<grpc::experimental::StaticDataCertificateProvider>(authority_pem));
  options.watch_root_certs();
  return ChannelSecurity::WithCertificates(grpc::experimental::TlsCredentials(options), kCoordinatorDnsName);
}

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_COMMON_RPC_ONE_CALL_H_
