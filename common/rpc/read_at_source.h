// SPDX-License-Identifier: Apache-2.0
// A source over content that is read piece by piece: a file or a snapshot. Two buffers serve all
// frames of a transfer.
#ifndef ATOLL_COMMON_RPC_READ_AT_SOURCE_H_
#define ATOLL_COMMON_RPC_READ_AT_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/base/reuse_pool.h"
#include "common/base/status.h"
#include "common/rpc/bulk.h"

namespace atl {

// `Readable` has `absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const`; Read
// returns its errors. Memory: two buffers of the largest read, plus buffers that callers still
// hold.
template <typename Readable>
class ReadAtSource final : public BulkSource {
 public:
  ReadAtSource(std::shared_ptr<const Readable> readable, uint64_t size) : readable_(std::move(readable)), size_(size) {}
  uint64_t size_bytes() const override { return size_; }
  absl::StatusOr<BulkBytes> Read(uint64_t offset, size_t bytes) override {
    std::shared_ptr<Buffer> buffer = buffers_->Take();
    if (buffer->memory.size() < bytes) buffer->memory.resize(bytes);
    const std::span<std::byte> out = std::span(buffer->memory).first(bytes);
    ATOLL_RETURN_IF_ERROR(readable_->ReadAt(offset, out));
    return BulkBytes{Bytes(out), std::move(buffer)};
  }

 private:
  struct Buffer {
    std::vector<std::byte> memory;
    void Clear() {}  // overwritten by the next read
  };
  static constexpr size_t kBuffers = 2;  // one frame in flight, one ready

  const std::shared_ptr<const Readable> readable_;
  const uint64_t size_;
  const std::shared_ptr<ReusePool<Buffer>> buffers_ = ReusePool<Buffer>::Make(kBuffers);
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_READ_AT_SOURCE_H_
