// SPDX-License-Identifier: Apache-2.0
// Frames as gRPC buffers, without a copy of the payload in either direction. The frames of a
// transfer reuse their auxiliary memory (lists of slices and views, references to owners). Only for
// the bulk client and service.
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

// Builds the frames of one transfer. One call at a time.
class FrameSender {
 public:
  // Returns the next frame of a source. The buffer holds the payload's owner until the transport is
  // done with it.
  absl::StatusOr<grpc::ByteBuffer> Next(BulkSource& source, uint64_t offset, size_t bytes);

 private:
  struct Held {
    std::shared_ptr<const void> owner;
    Mutex mutex;                                         // a thread sanitizer does not see gRPC's own ordering
    std::shared_ptr<Held> self ATOLL_GUARDED_BY(mutex);  // set while the transport uses it
    void Clear() { owner.reset(); }
  };
  static grpc::Slice Borrowed(Bytes bytes, const std::shared_ptr<Held>& held);
  static void LetGo(void* held);

  // Room for four: the frame being sent, the one that is ready, and two that gRPC may release a little later.
  const std::shared_ptr<ReusePool<Held>> held_ = ReusePool<Held>::Make(4);
};

// A received frame and the message that holds its memory. May be destroyed on any thread. No
// grpc::Slice refers to the memory: while a memory quota is used up, freed memory wakes the quota's
// reclaimer, which needs an ExecCtx of gRPC on the thread and dereferences a null pointer without
// one. In gRPC 1.51 grpc_byte_buffer_destroy makes one (src/core/lib/surface/byte_buffer.cc),
// grpc_slice_unref does not (src/core/lib/slice/slice_api.cc).
struct ReceivedFrame {
  grpc::ByteBuffer message;
  std::vector<Bytes> views;  // of the message
  FrameView view;            // borrows from the message
  void Clear();
};

// Reads the frames of one transfer. One call at a time.
class FrameReceiver {
 public:
  // Empties `message`; the returned frame owns its memory.
  absl::StatusOr<std::shared_ptr<const ReceivedFrame>> Read(grpc::ByteBuffer& message);

 private:
  // One for each frame that a handler may leave unanswered, plus the one being parsed.
  const std::shared_ptr<ReusePool<ReceivedFrame>> frames_ = ReusePool<ReceivedFrame>::Make(kUploadCredits + 1);
};
inline BulkBytes PayloadOf(const std::shared_ptr<const ReceivedFrame>& frame) {
  return {std::span<const Bytes>(frame->view.payload), frame};
}

// Empties `message` and returns its header. An empty message is an empty header, because protobuf leaves
// out empty fields. InvalidArgument when it is no frame (DecodeFrame) or has payload instead of a header.
absl::StatusOr<std::string> ReadHeaderFrame(grpc::ByteBuffer& message);

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_BULK_FRAMES_H_
