// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/read_message.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include "common/wire/element_limit.h"

namespace atl {

absl::Status ReadMessage(grpc::ByteBuffer bytes, google::protobuf::Message& out) {
  grpc::ProtoBufferReader once(&bytes);
  if (!once.status().ok()) return NoSuchMessage(*out.GetDescriptor());
  ATOLL_RETURN_IF_ERROR(CheckElements(once, *out.GetDescriptor()));
  grpc::ProtoBufferReader again(&bytes);
  return out.ParseFromZeroCopyStream(&again) ? absl::OkStatus() : NoSuchMessage(*out.GetDescriptor());
}

}  // namespace atl
