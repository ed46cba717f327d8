// SPDX-License-Identifier: Apache-2.0
// Interfaces for bulk bytes. Contributions and files are uploaded; updates, fragments, blocks and files are
// downloaded. Implementations: gRPC (bulk_client.h, bulk_service.h) and, in tests, memory. One call is one
// conversation. After a broken connection the caller starts a new call, timed by Backoff, at the offset that the
// receiver has reached (in the request of a download, the reply to an upload). The sender never copies the payload.
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

// The pieces of a frame: one, stored inline, or several in an array that BulkBytes::owner keeps
// alive. Passing on a frame allocates nothing.
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
  // Calls come one at a time, unless in_memory(). An error ends the transfer with that status.
  virtual absl::StatusOr<BulkBytes> Read(uint64_t offset, size_t bytes) = 0;
  // For uploads only: called once, on a thread of the transport, when the transport has taken the
  // last byte and the receiver's answer is awaited. Not called when the transfer ends earlier.
  virtual void OnAllSent() {}
  // True when Read never blocks and may be called for several transfers concurrently.
  virtual bool in_memory() const { return false; }
  // CRC-32C of `bytes`, which Read returned for `offset`.
  virtual uint32_t Crc32cOf(uint64_t offset, const BulkBytes& bytes) const;
};
// A source over shared, immutable bytes in memory. Remembers the CRC of each full frame (1 MiB at a multiple of 1
// MiB, or the end), whatever the number of sends; the CRC of a smaller frame is computed at each send. Thread-safe.
std::shared_ptr<BulkSource> MakeMemorySource(Bytes bytes, std::shared_ptr<const void> owner);
std::shared_ptr<BulkSource> MakeMemorySource(std::shared_ptr<const std::vector<std::byte>> bytes);
std::shared_ptr<BulkSource> MakeMemorySource(std::string bytes);
// Returns a source of incompressible bytes, to measure a link. All such sources share 1 MiB of
// memory.
std::shared_ptr<BulkSource> MakeProbeSource(uint64_t bytes);

// Destination of received bytes. Calls come one at a time: OnHeader once, then OnBytes from the
// requested offset, in ascending order without gaps; the CRC-32C of the bytes is already checked.
// An error ends the transfer with that status.
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

// A running transfer. The destructor calls Cancel and does not wait for `done`; the object may be
// destroyed after the end of the transfer, too.
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

// Client side. Thread-safe. `done` is called exactly once, never inside the call, on a thread of the
// transport (or on the executor of the memory form). A transfer without progress for `stall_limit` (an
// option of the implementation) ends with DeadlineExceeded. Other errors: those of the peer's handler,
// of the source or sink, and of CheckFrame; Cancelled; and Unavailable for a broken connection.
class BulkClient {
 public:
  virtual ~BulkClient() = default;
  // Requires source->size_bytes() == UploadBytes(header). OK once the receiver has reported that
  // everything is durable or, for a probe, received.
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
// Stores a shared pointer and a few words without an allocation, because one reply is made for every frame.
using StatusReply = SmallFunction<void(absl::Status)>;

// One upload conversation: OnBegin, OnBytes*, OnEnd. If it fails, OnBroken is last, also after OnEnd; after
// acceptance no call follows. Without a valid header no call is made. Calls come one at a time, on transport threads
// or in a reply, and must not block. Each reply must be called exactly once, at any later time and from any thread.
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
  // The conversation ended before acceptance: the peer disconnected or sent invalid data, peer and handler
  // made no progress for too long, or a reply was an error. Outstanding replies are ignored from now on.
  virtual void OnBroken(absl::Status why) = 0;
};
constexpr int kUploadCredits = 4;

// Content of a download.
struct DownloadContent {
  DownloadHeader header;               // total_bytes == source->size_bytes()
  std::shared_ptr<BulkSource> source;  // in_memory() or read on the service's executor `reads`; keeps the content alive
  // Called once, when the transfer ends, with result and payload bytes, if OnDownload replied. May be null.
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
