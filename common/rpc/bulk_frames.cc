// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/bulk_frames.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <array>
#include <utility>

namespace atl {
namespace {

grpc::Slice CopiedSlice(Bytes bytes) { return grpc::Slice(bytes.data(), bytes.size()); }

absl::Status ReadInto(grpc::ByteBuffer& message, ReceivedFrame& frame) {
  frame.message.Swap(&message);
  grpc::ProtoBufferReader pieces(&frame.message);
  if (!pieces.status().ok()) {
    return absl::InvalidArgumentError(absl::StrCat("a bulk message cannot be read: ", pieces.status().error_message()));
  }
  const void* piece = nullptr;
  for (int size = 0; pieces.Next(&piece, &size);) {
    frame.views.emplace_back(static_cast<const std::byte*>(piece), static_cast<size_t>(size));
  }
  return DecodeFrame(frame.views, frame.view);
}

}  // namespace

grpc::ByteBuffer BufferOf(const std::string& message) {
  const grpc::Slice slice(message);
  return grpc::ByteBuffer(&slice, 1);
}

grpc::ByteBuffer HeaderFrame(const std::string& header) { return BufferOf(EncodeHeaderFrame(header)); }

// Returns a slice over bytes without a copy. `held` is released when the transport is done with the
// slice.
grpc::Slice FrameSender::Borrowed(Bytes bytes, const std::shared_ptr<Held>& held) {
  {
    const MutexLock lock(held->mutex);
    held->self = held;
  }
  // gRPC takes a mutable pointer but does not write through it.
  return grpc::Slice(const_cast<std::byte*>(bytes.data()), bytes.size(), LetGo, held.get());
}

void FrameSender::LetGo(void* held) {
  std::shared_ptr<Held> last;
  const MutexLock lock(static_cast<Held*>(held)->mutex);
  last = std::exchange(static_cast<Held*>(held)->self, nullptr);
}

absl::StatusOr<grpc::ByteBuffer> FrameSender::Next(BulkSource& source, uint64_t offset, size_t bytes) {
  ATOLL_ASSIGN_OR_RETURN(const BulkBytes payload, source.Read(offset, bytes));
  const bool last = offset + bytes == source.size_bytes();
  const FramePrefix prefix = EncodeFramePrefix(offset, source.Crc32cOf(offset, payload), last, bytes);
  const auto borrowed = [&](const Bytes& piece) {
    const std::shared_ptr<Held> held = held_->Take();
    held->owner = payload.owner;
    return Borrowed(piece, held);
  };
  if (payload.pieces.size() == 1) {
    const std::array slices{CopiedSlice(prefix.bytes()), borrowed(payload.pieces.front())};
    return grpc::ByteBuffer(slices.data(), slices.size());
  }
  std::vector<grpc::Slice> slices{CopiedSlice(prefix.bytes())};
  for (const Bytes& piece : payload.pieces) slices.push_back(borrowed(piece));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

void ReceivedFrame::Clear() {
  views.clear();
  view.payload.clear();
  message.Clear();
}

absl::StatusOr<std::shared_ptr<const ReceivedFrame>> FrameReceiver::Read(grpc::ByteBuffer& message) {
  std::shared_ptr<ReceivedFrame> frame = frames_->Take();
  ATOLL_RETURN_IF_ERROR(ReadInto(message, *frame));
  return std::shared_ptr<const ReceivedFrame>(std::move(frame));
}

absl::StatusOr<std::string> ReadHeaderFrame(grpc::ByteBuffer& message) {
  ReceivedFrame frame;
  ATOLL_RETURN_IF_ERROR(ReadInto(message, frame));
  if (!frame.view.has_header && frame.view.payload_bytes > 0) {
    return absl::InvalidArgumentError("a bulk conversation begins with payload instead of a header");
  }
  return std::move(frame.view.header);
}

}  // namespace atl
