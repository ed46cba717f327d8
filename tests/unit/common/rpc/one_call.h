// SPDX-License-Identifier: Apache-2.0
// A call with one message, empty by default, for tests of the layers below the calls.
#ifndef ATOLL_TESTS_UNIT_COMMON_RPC_ONE_CALL_H_
#define ATOLL_TESTS_UNIT_COMMON_RPC_ONE_CALL_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "common/base/time.h"
#include "common/rpc/channel.h"

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

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_COMMON_RPC_ONE_CALL_H_
