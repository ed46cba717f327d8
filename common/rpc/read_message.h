// SPDX-License-Identifier: Apache-2.0
// Reads the message of a caller: the only way from gRPC's bytes to protobuf in a server.
#ifndef ATOLL_COMMON_RPC_READ_MESSAGE_H_
#define ATOLL_COMMON_RPC_READ_MESSAGE_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include <utility>

#include "common/base/status.h"

namespace atl {

// InvalidArgument for bytes that are no such message, for more than limits::kMessageElements, and
// for a text field (not a list) of the message itself with more than limits::kTextBytes.
absl::Status ReadMessage(grpc::ByteBuffer bytes, google::protobuf::Message& out);

template <typename Message>
absl::StatusOr<Message> ReadMessage(grpc::ByteBuffer bytes) {
  Message out;
  ATOLL_RETURN_IF_ERROR(ReadMessage(std::move(bytes), out));
  return out;
}

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_READ_MESSAGE_H_
