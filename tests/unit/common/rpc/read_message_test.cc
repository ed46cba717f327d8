// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/read_message.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "atoll/v1/transfer.pb.h"
#include "common/base/executor.h"
#include "common/plan/limits.h"
#include "common/rpc/bulk_service.h"
#include "tests/support/memory_bulk.h"
#include "tests/unit/common/rpc/one_call.h"
#include "tests/unit/common/rpc/rpc_fixtures.h"

namespace atl {
namespace {

TEST(ReadMessage, RefusesABufferWithoutAMessage) {
  EXPECT_EQ(ReadMessage<v1::DownloadRequest>(grpc::ByteBuffer()).status(),
            absl::InvalidArgumentError("the bytes are no atoll.v1.DownloadRequest; use a program of this version"));
}

TEST(ReadMessage, EachTransferRefusesManySmallElements) {  // S38
  SystemClock clock;
  ThreadExecutor io{1};
  KeepingHandler handler;
  const std::unique_ptr<grpc::Service> service = MakeBulkService(handler, io, clock, {});
  const std::unique_ptr<Server> server = StartServer({service.get()});
  std::string many;
  for (size_t i = 0; i <= limits::kMessageElements; ++i) many += std::string("\x7a\0", 2);  // field 15, empty
  v1::Frame frame;
  frame.set_header(many);
  for (const auto& [method, bytes] : {std::pair<std::string, std::string>{"MissingBlobs", many},
                                      {"Download", many},
                                      {"Upload", frame.SerializeAsString()}}) {
    const grpc::Status refused =
        OneCall(BulkChannelTo(server->port()), "/atoll.v1.TransferService/" + method, false, bytes);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method;
    EXPECT_NE(refused.error_message().find("elements"), std::string::npos) << refused.error_message();
  }
}

}  // namespace
}  // namespace atl
