// SPDX-License-Identifier: Apache-2.0
// Collects the bytes of one download over its conversations: calls of the transport, each resuming the last.
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

// OnHeader and OnBytes are called by the transport, one call at a time; everything else only
// between conversations.
class DownloadBuffer final : public BulkSink {
 public:
  // Refuses more than `limit_bytes`. Takes memory from `buffers`; the last owner of Take's result returns it there.
  DownloadBuffer(uint64_t limit_bytes, std::shared_ptr<BufferShelf> buffers)
      : limit_bytes_(limit_bytes), buffers_(std::move(buffers)) {}

  // InvalidArgument: too many bytes are announced. NotFound: the version is older than wanted.
  // Aborted: the content differs from that of the last conversation.
  absl::Status OnHeader(const DownloadHeader& header) override;
  absl::Status OnBytes(uint64_t offset, Bytes bytes) override;

  // The next conversation resumes at size(), which is 0 if OnHeader returned Aborted in the last
  // one. A version below `at_least` is refused, and its received bytes are dropped.
  void PrepareResume(Version at_least);
  // The next conversation starts from 0.
  void Clear();
  uint64_t size() const { return bytes_.size(); }
  const std::optional<DownloadHeader>& header() const { return header_; }
  bool complete() const { return header_ && bytes_.size() == header_->total_bytes; }
  // Requires complete(). Whether the bytes have the announced digest; true if none was announced.
  bool intact() const;
  // Returns the collected bytes, once.
  std::shared_ptr<const std::vector<std::byte>> Take();

 private:
  const uint64_t limit_bytes_;
  Version at_least_;
  const std::shared_ptr<BufferShelf> buffers_;
  std::optional<DownloadHeader> header_;
  std::vector<std::byte> bytes_;
  DigestHasher hasher_;  // over bytes_, updated as bytes arrive, while the CPU's cache holds them
  bool restart_ = false;
};

}  // namespace atl

#endif  // ATOLL_WORKER_LINK_DOWNLOAD_BUFFER_H_
