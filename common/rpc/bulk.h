// SPDX-License-Identifier: Apache-2.0
// Interfaces for bulk bytes. Contributions and files are uploaded; updates, fragments, blocks and
// files are downloaded. Implementations: gRPC (bulk_client.h, bulk_service.h) and, in
// tests, memory. One call is one conversation. After a broken connection the caller starts a new
// call at the offset reached, at times chosen by Backoff. The sender never copies the payload.
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

// One piece, stored inline, or many pieces in an array of the owner. Passing on a frame allocates
// nothing.
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

// Immutable bytes: the pieces in order. The pieces and their list stay valid while `owner` is held.
struct BulkBytes {
  BulkPieces pieces;
  std::shared_ptr<const void> owner;
  size_t size() const;
};

// Source of the bytes to send.
class BulkSource {
 public:
  virtual ~BulkSource() = default;
  virtual uint64_t size_bytes() const = 0;
  // Returns exactly `bytes` bytes from `offset`; offset + bytes <= size_bytes(). May read a file.
  // Calls come one at a time, unless in_memory().
  virtual absl::StatusOr<BulkBytes> Read(uint64_t offset, size_t bytes) = 0;
  // Called once, on a thread of the transport, when the transport has taken the last byte and the
  // receiver's answer is awaited. Not called when the transfer ends earlier.
  virtual void OnAllSent() {}
  // True when Read never blocks and may be called for several transfers concurrently.
  virtual bool in_memory() const { return false; }
  // CRC-32C of `bytes`, which Read returned for `offset`.
  virtual uint32_t Crc32cOf(uint64_t offset, const BulkBytes& bytes) const;
};
// A source over shared, immutable bytes in memory. Computes the CRC of a whole frame once, whatever
// the number of sends. Thread-safe.
std::shared_ptr<BulkSource> MakeMemorySource(Bytes bytes, std::shared_ptr<const void> owner);
std::shared_ptr<BulkSource> MakeMemorySource(std::shared_ptr<const std::vector<std::byte>> bytes);
std::shared_ptr<BulkSource> MakeMemorySource(std::string bytes);
// Returns a source of incompressible bytes, to measure a link. All such sources share 1 MiB of
// memory.
std::shared_ptr<BulkSource> MakeProbeSource(uint64_t bytes);

// Destination of received bytes. Calls come one at a time: OnHeader once, then OnBytes in ascending
// order without gaps, each already checked against its CRC-32C. An error ends the transfer with
// that status.
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

// A running transfer. The destructor calls Cancel and does not wait for `done`; it may also run
// after the end of the transfer.
class BulkCall {
 public:
  virtual ~BulkCall() = default;
  // Asks the transfer to end. `done` follows with Cancelled, or with another result that came first. Thread-safe.
  virtual void Cancel() = 0;
};

// Bytes a second each way; 0: no cap.
struct BulkCaps {
  uint64_t upload_bytes_per_second = 0;    // over all uploads of a client
  uint64_t download_bytes_per_second = 0;  // over all downloads of DownloadRequest::worker; the sender enforces it
};

// Client side. Thread-safe. `done` is called exactly once, never inside the call, on a thread of
// the transport (or on the executor of the memory form). A transfer without progress for
// `stall_limit` (an option of the implementation) ends with DeadlineExceeded. Errors are those of
// the handlers, plus Unavailable for a broken connection.
class BulkClient {
 public:
  virtual ~BulkClient() = default;
  // Requires source->size_bytes() == UploadBytes(header). OK once the receiver has reported that
  // everything is durable.
  virtual std::unique_ptr<BulkCall> Upload(UploadHeader header, std::shared_ptr<BulkSource> source, BulkDone done) = 0;
  // OK once the last byte is in the sink. The sink checks digests over the whole.
  virtual std::unique_ptr<BulkCall> Download(DownloadRequest request, std::shared_ptr<BulkSink> sink,
                                             BulkDone done) = 0;
  // Asks which of `blobs`, at most 4,096, the coordinator does not store; `done` gets these.
  virtual void MissingBlobs(std::vector<Sha256> blobs,
                            std::function<void(absl::StatusOr<std::vector<Sha256>>)> done) = 0;
  // Sets the caps of the job. The lower of these and the client's own caps applies: to uploads from
  // the next frame on, to downloads that begin after the call.
  virtual void SetJobCaps(const BulkCaps& caps) = 0;
};

// ---- server side, implemented by coordinator/service ------------------------------------------

using UploadReply = std::function<void(absl::StatusOr<UploadStatus>)>;
// Inline storage fits a shared pointer and a few words, because one reply is made for every frame.
using StatusReply = SmallFunction<void(absl::Status)>;

// One upload conversation: OnBegin, OnBytes*, then OnEnd or OnBroken. Calls come one at a time, on
// transport threads or inside a reply, and must not block. Each reply is called exactly once, at
// any later time and from any thread.
class UploadHandler {
 public:
  virtual ~UploadHandler() = default;
  // Replies with the offset to continue from, with accepted = true when nothing is left to send, or
  // with an error.
  virtual void OnBegin(UploadHeader header, UploadReply reply) = 0;
  // Receives the next bytes, in order, without gaps, CRC checked. At most kUploadCredits calls are
  // unanswered at a time. An error ends the conversation with that status.
  virtual void OnBytes(uint64_t offset, BulkBytes bytes, StatusReply reply) = 0;
  // Called when all announced bytes were passed on and answered. Replies OK once everything is
  // durable.
  virtual void OnEnd(StatusReply reply) = 0;
  // The conversation ended before acceptance: the peer disconnected, stalled or sent invalid data,
  // or a reply was an error. Outstanding replies are ignored from now on.
  virtual void OnBroken(absl::Status why) = 0;
};
constexpr int kUploadCredits = 4;

// Content of a download.
struct DownloadContent {
  DownloadHeader header;               // total_bytes == source->size_bytes()
  std::shared_ptr<BulkSource> source;  // in_memory() or read on the service's executor `reads`; keeps the content alive
  // Called once when the transfer is over, with its result and payload bytes; may be null.
  std::function<void(BulkResult)> finished;
};
using DownloadReply = std::function<void(absl::StatusOr<DownloadContent>)>;

// Entry point of all bulk conversations. Thread-safe; must not block. Must outlive the service.
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
