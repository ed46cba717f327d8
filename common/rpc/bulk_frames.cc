#include "common/rpc/bulk_frames.h"

namespace atl {
namespace {

grpc::Slice CopiedSlice(Bytes bytes) { return grpc::Slice(bytes.data(), bytes.size()); }

// A slice over bytes that stay where they are; `owner` is let go when the transport is done.
grpc::Slice BorrowedSlice(Bytes bytes, const std::shared_ptr<const void>& owner) {
  using Owner = std::shared_ptr<const void>;
  // gRPC's interface takes a mutable pointer and does not write through it.
  auto* data = const_cast<std::byte*>(bytes.data());
  return grpc::Slice(
      data, bytes.size(), [](void* held) { std::unique_ptr<Owner>(static_cast<Owner*>(held)).reset(); },
      std::make_unique<Owner>(owner).release());
}

}  // namespace

grpc::ByteBuffer BufferOf(const std::string& message) {
  const grpc::Slice slice(message);
  return grpc::ByteBuffer(&slice, 1);
}

grpc::ByteBuffer HeaderFrame(const std::string& header) { return BufferOf(EncodeHeaderFrame(header)); }

absl::StatusOr<grpc::ByteBuffer> NextFrame(BulkSource& source, uint64_t offset, size_t bytes) {
  ATOLL_ASSIGN_OR_RETURN(const BulkBytes payload, source.Read(offset, bytes));
  const bool last = offset + bytes == source.size_bytes();
  const FramePrefix prefix = EncodeFramePrefix(offset, source.Crc32cOf(offset, payload), last, bytes);
  std::vector<grpc::Slice> slices;
  slices.push_back(CopiedSlice(prefix.bytes()));
  for (const Bytes& piece : payload.pieces) slices.push_back(BorrowedSlice(piece, payload.owner));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::StatusOr<ReceivedFrame> ReadFrame(const grpc::ByteBuffer& buffer) {
  const auto slices = std::make_shared<std::vector<grpc::Slice>>();
  if (const grpc::Status status = buffer.Dump(slices.get()); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("a bulk message cannot be read: ", status.error_message()));
  }
  std::vector<Bytes> views;
  views.reserve(slices->size());
  for (const grpc::Slice& slice : *slices) {
    views.emplace_back(reinterpret_cast<const std::byte*>(slice.begin()), slice.size());
  }
  ATOLL_ASSIGN_OR_RETURN(FrameView view, DecodeFrame(views));
  return ReceivedFrame{std::move(view), slices};
}

absl::StatusOr<std::string> ReadHeaderFrame(const grpc::ByteBuffer& buffer) {
  ATOLL_ASSIGN_OR_RETURN(const ReceivedFrame frame, ReadFrame(buffer));
  if (!frame.view.has_header && frame.view.payload_bytes > 0) {
    return absl::InvalidArgumentError("a bulk conversation begins with payload instead of a header");
  }
  return frame.view.header;
}

}  // namespace atl
