// SPDX-License-Identifier: Apache-2.0
// Bulk bytes behind interfaces: contributions and files go up, updates, fragments, blocks and files come down. Behind
// them stands gRPC (bulk_client.h, bulk_service.h) or memory (memory_bulk.h). One call is one conversation: whoever
// wants to go on after a break calls again with the offset reached, at times chosen by Backoff. Payload is never copied
// by the sender.
#ifndef ATOLL_COMMON_RPC_BULK_H_
#define ATOLL_COMMON_RPC_BULK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/base/small_function.h"
#include "common/base/status.h"
#include "common/base/time.h"
#include "common/wire/transfer_messages.h"

namespace atl {

// One piece, kept here, or many that lie with their owner: to hand on a frame takes nothing from the heap.
class BulkPieces {
 public:
  BulkPieces() = default;
  BulkPieces(Bytes one) : one_(one) {}                      // NOLINT(google-explicit-constructor)
  BulkPieces(std::span<const Bytes> many) : many_(many) {}  // NOLINT(google-explicit-constructor)
  const Bytes* begin() const { return many_.empty() ? &one_ : many_.data(); }
  const Bytes* end() const { return begin() + size(); }
  size_t size() const { return many_.empty() ? (one_.empty() ? 0 : 1) : many_.size(); }
  const Bytes& front() const { return *begin(); }

 private:
  Bytes one_;
  std::span<const Bytes> many_;
};

// Immutable bytes that stay valid, with the list of their pieces, while `owner` is held. The pieces in order are the
// content.
struct BulkBytes {
  BulkPieces pieces;
  std::shared_ptr<const void> owner;
  size_t size() const;
};

// Where sent bytes come from.
class BulkSource {
 public:
  virtual ~BulkSource() = default;
  virtual uint64_t size_bytes() const = 0;
  // Exactly `bytes` from `offset`; offset + bytes <= size_bytes(). May read a file. Called one at a time for one
  // transfer.
  virtual absl::StatusOr<BulkBytes> Read(uint64_t offset, size_t bytes) = 0;
  // Told once, from a thread of the transport, when the last byte is handed on and only the answer is waited for; not
  // where a transfer ends before.
  virtual void OnAllSent() {}
  // True when Read never waits, and may be called for several transfers at once.
  virtual bool in_memory() const { return false; }
  // CRC-32C of `bytes`, which Read has given from `offset`.
  virtual uint32_t Crc32cOf(uint64_t offset, const BulkBytes& bytes) const;
};
// A source over bytes in memory, shared and immutable. CRCs of whole frames are computed once, however often they are
// sent. Thread-safe.
std::shared_ptr<BulkSource> MakeMemorySource(Bytes bytes, std::shared_ptr<const void> owner);
std::shared_ptr<BulkSource> MakeMemorySource(std::shared_ptr<const std::vector<std::byte>> bytes);
std::shared_ptr<BulkSource> MakeMemorySource(std::string bytes);
// So many bytes that no compression on the way makes fewer, out of 1 MiB of memory that all such sources
// share: to measure a link.
std::shared_ptr<BulkSource> MakeProbeSource(uint64_t bytes);

// Where received bytes go. Calls come one at a time: OnHeader once, then OnBytes in ascending order without gaps, each
// already checked against its CRC-32C. An error ends the transfer with that status.
class BulkSink {
 public:
  virtual ~BulkSink() = default;
  virtual absl::Status OnHeader(const DownloadHeader& header) = 0;
  virtual absl::Status OnBytes(uint64_t offset, Bytes bytes) = 0;
};

struct BulkResult {
  absl::Status status;
  uint64_t payload_bytes = 0;  // moved in this conversation
  uint64_t resumed_at = 0;     // offset at which it began
};
using BulkDone = std::function<void(BulkResult)>;

// A running transfer. Destroying it cancels; `done` is then called with Cancelled, or not at all if it has been.
class BulkCall {
 public:
  virtual ~BulkCall() = default;
  // done follows with Cancelled unless it is already on its way. Thread-safe.
  virtual void Cancel() = 0;
};

// Bytes a second each way; 0: no cap.
struct BulkCaps {
  uint64_t upload_bytes_per_second = 0;    // over all uploads of a client
  uint64_t download_bytes_per_second = 0;  // over all downloads of the requests' worker, kept by the sender
};

// The client's side. Thread-safe. `done` is called exactly once, never inside the call, from a thread of the transport
// (or the executor of the memory form). A transfer without progress for `stall_limit` (options of the implementation)
// ends with DeadlineExceeded. Errors are those of the handlers, plus Unavailable for a broken connection.
class BulkClient {
 public:
  virtual ~BulkClient() = default;
  // Requires source->size_bytes() == UploadBytes(header). OK once the receiver has said that all is durable.
  virtual std::unique_ptr<BulkCall> Upload(UploadHeader header, std::shared_ptr<BulkSource> source, BulkDone done) = 0;
  // OK once the last byte is in the sink. Digests over the whole are the sink's to check.
  virtual std::unique_ptr<BulkCall> Download(DownloadRequest request, std::shared_ptr<BulkSink> sink,
                                             BulkDone done) = 0;
  // Which of these are not stored at the coordinator; at most 4,096.
  virtual void MissingBlobs(std::vector<Sha256> blobs,
                            std::function<void(absl::StatusOr<std::vector<Sha256>>)> done) = 0;
  // Caps of the job, besides those that the client was made with: the lower holds, for uploads from the next frame on,
  // for downloads that begin from now on.
  virtual void SetJobCaps(const BulkCaps& caps) = 0;
};

// ---- the server's side, implemented by coordinator/service
// -----------------------------------------------------------

using UploadReply = std::function<void(absl::StatusOr<UploadStatus>)>;
// With room for a shared pointer and a few words: one is made for every frame.
using StatusReply = SmallFunction<void(absl::Status)>;

// One upload conversation: OnBegin, OnBytes*, OnEnd or OnBroken (the last call). Calls come one at a time, on transport
// threads or inside a reply, and must not block; replies may come later from any thread, each exactly once.
class UploadHandler {
 public:
  virtual ~UploadHandler() = default;
  // Replies with the offset to go on from, with accepted = true when nothing is left to send, or with the refusal.
  virtual void OnBegin(UploadHeader header, UploadReply reply) = 0;
  // The next bytes, in order, without gap, CRC checked. At most kUploadCredits calls are unanswered at a time. An error
  // ends the conversation with that status.
  virtual void OnBytes(uint64_t offset, BulkBytes bytes, StatusReply reply) = 0;
  // All announced bytes were given and answered. Replies OK once everything is durable.
  virtual void OnEnd(StatusReply reply) = 0;
  // The conversation ended before acceptance: the peer is gone, stalled or sent rubbish, or a reply was an error.
  // Outstanding replies are ignored from now on.
  virtual void OnBroken(absl::Status why) = 0;
};
constexpr int kUploadCredits = 4;

// What a download sends.
struct DownloadContent {
  DownloadHeader header;               // total_bytes == source->size_bytes()
  std::shared_ptr<BulkSource> source;  // read on the I/O executor of the service; also the pin on what is read
  // Told once when the transfer is over, with the payload bytes moved; may be empty.
  std::function<void(BulkResult)> finished;
};
using DownloadReply = std::function<void(absl::StatusOr<DownloadContent>)>;

// Entry point of all bulk conversations. Thread-safe; must not block. Outlives the service.
class BulkHandler {
 public:
  virtual ~BulkHandler() = default;
  virtual std::shared_ptr<UploadHandler> NewUpload(std::string peer) = 0;
  virtual void OnDownload(DownloadRequest request, DownloadReply reply) = 0;
  virtual void OnMissingBlobs(std::vector<Sha256> blobs,
                              std::function<void(absl::StatusOr<std::vector<Sha256>>)> reply) = 0;
};

}  // namespace atl

#endif  // ATOLL_COMMON_RPC_BULK_H_
