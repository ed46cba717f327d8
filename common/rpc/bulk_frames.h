// SPDX-License-Identifier: Apache-2.0
// Frames as gRPC buffers, without a copy of the payload either way. What a frame needs besides (lists of slices and of
// views, what keeps a payload's owner) is used again by the frames of its transfer after it. Used by the bulk client
// and service only.
#ifndef ATOLL_COMMON_RPC_BULK_FRAMES_H_
#define ATOLL_COMMON_RPC_BULK_FRAMES_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/reuse_pool.h"
#include "common/base/status.h"
#include "common/rpc/bulk.h"
#include "common/wire/frame.h"

namespace atl {

grpc::ByteBuffer BufferOf(const std::string& message);
grpc::ByteBuffer HeaderFrame(const std::string& header);

// Of one transfer. One call at a time.
class FrameSender {
 public:
  // The next frame of a source; the buffer holds the payload's owner until the transport is done with it.
  absl::StatusOr<grpc::ByteBuffer> Next(BulkSource& source, uint64_t offset, size_t bytes);

 private:
  struct Held {
    std::shared_ptr<const void> owner;
    Mutex mutex;                                         // gRPC's own order is one that a thread sanitizer cannot see
    std::shared_ptr<Held> self ATOLL_GUARDED_BY(mutex);  // while the transport has it
    void Clear() { owner.reset(); }
  };
  static grpc::Slice Borrowed(Bytes bytes, const std::shared_ptr<Held>& held);
  static void LetGo(void* held);

  // A frame is being sent and one is ready; gRPC may let go of the one before a little later.
  const std::shared_ptr<ReusePool<Held>> held_ = ReusePool<Held>::Make(4);
};

// A frame that came, with the memory in which it came.
struct ReceivedFrame {
  std::vector<grpc::Slice> slices;
  std::vector<Bytes> views;  // of the slices
  FrameView view;            // borrows from the slices
  void Clear();
};

// Of one transfer. One call at a time.
class FrameReceiver {
 public:
  absl::StatusOr<std::shared_ptr<const ReceivedFrame>> Read(const grpc::ByteBuffer& buffer);

 private:
  // As many as a handler may have unanswered, and the one that is looked at.
  const std::shared_ptr<ReusePool<ReceivedFrame>> frames_ = ReusePool<ReceivedFrame>::Make(kUploadCredits + 1);
};
inline BulkBytes PayloadOf(const std::shared_ptr<const ReceivedFrame>& frame) {
  return {std::span<const Bytes>(frame->view.payload), frame};
}

// The header of a first frame. An empty message is an empty header, as protobuf leaves empty fields out.
absl::StatusOr<std::string> ReadHeaderFrame(const grpc::ByteBuffer& buffer);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_BULK_FRAMES_H_
