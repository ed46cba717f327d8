// SPDX-License-Identifier: Apache-2.0
// The bytes of one download, collected over its conversations.
#ifndef ATOLL_WORKER_LINK_DOWNLOAD_BUFFER_H_
#define ATOLL_WORKER_LINK_DOWNLOAD_BUFFER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/buffer_shelf.h"
#include "common/base/hash.h"
#include "common/rpc/bulk.h"

namespace atl {

// Called from the transport, one call at a time; everything else only between conversations.
class DownloadBuffer final : public BulkSink {
 public:
  // More than `limit_bytes` are refused. The memory is taken from `buffers`, and goes back there.
  DownloadBuffer(uint64_t limit_bytes, std::shared_ptr<BufferShelf> buffers)
      : limit_bytes_(limit_bytes), buffers_(std::move(buffers)) {}

  // InvalidArgument: too many bytes are announced. NotFound: an older version than wanted is. Aborted: it is not what
  // the last conversation announced.
  absl::Status OnHeader(const DownloadHeader& header) override;
  absl::Status OnBytes(uint64_t offset, Bytes bytes) override;

  // The next conversation goes on at size(), which is 0 when the last one was aborted. A version below `at_least` is
  // refused, and what has come of one is dropped.
  void PrepareResume(Version at_least);
  // The next conversation begins anew.
  void Clear();
  uint64_t size() const { return bytes_.size(); }
  const std::optional<DownloadHeader>& header() const { return header_; }
  bool complete() const { return header_ && bytes_.size() == header_->total_bytes; }
  // Requires complete(). The bytes have the digest that was announced; true where none was.
  bool intact() const;
  // What was collected, once.
  std::shared_ptr<const std::vector<std::byte>> Take();

 private:
  const uint64_t limit_bytes_;
  Version at_least_;
  const std::shared_ptr<BufferShelf> buffers_;
  std::optional<DownloadHeader> header_;
  std::vector<std::byte> bytes_;
  DigestHasher hasher_;  // of bytes_, while they are in the cache
  bool restart_ = false;
};

}  // namespace atl

#endif  // ATOLL_WORKER_LINK_DOWNLOAD_BUFFER_H_
