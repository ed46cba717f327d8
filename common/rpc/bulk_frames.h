// Frames as gRPC buffers, without a copy of the payload either way. Used by bulk_client.cc and bulk_service.cc only.
#ifndef ATOLL_COMMON_RPC_BULK_FRAMES_H_
#define ATOLL_COMMON_RPC_BULK_FRAMES_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/status.h"
#include "common/rpc/bulk.h"
#include "common/wire/frame.h"

namespace atl {

grpc::ByteBuffer BufferOf(const std::string& message);
grpc::ByteBuffer HeaderFrame(const std::string& header);
// The next frame of a source; the buffer holds the payload's owner until the transport is done with it.
absl::StatusOr<grpc::ByteBuffer> NextFrame(BulkSource& source, uint64_t offset, size_t bytes);

struct ReceivedFrame {
  FrameView view;  // borrows from `owner`
  std::shared_ptr<const void> owner;
  BulkBytes Payload() const { return {view.payload, owner}; }
};
absl::StatusOr<ReceivedFrame> ReadFrame(const grpc::ByteBuffer& buffer);
// The header of a first frame. An empty message is an empty header, as protobuf leaves empty fields out.
absl::StatusOr<std::string> ReadHeaderFrame(const grpc::ByteBuffer& buffer);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_BULK_FRAMES_H_
