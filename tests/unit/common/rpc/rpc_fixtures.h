// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of common/rpc: a server with the control and the bulk service on a free port,
// a mailbox to wait on, and a bulk handler that keeps its uploads.
#ifndef ATOLL_TESTS_UNIT_COMMON_RPC_RPC_FIXTURES_H_
#define ATOLL_TESTS_UNIT_COMMON_RPC_RPC_FIXTURES_H_

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/rpc/bulk.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"

namespace atl {

// Values from other threads, in order. Take waits at most 20 s and then fails the test.
template <typename T>
class Inbox {
 public:
  void Put(T value) {
    MutexLock lock(mutex_);
    values_.push_back(std::move(value));
    filled_.NotifyAll();
  }
  std::optional<T> Take() {
    MutexLock lock(mutex_);
    for (int i = 0; i < 20 && values_.empty(); ++i) filled_.WaitFor(mutex_, Seconds(1));
    if (values_.empty()) {
      ADD_FAILURE() << "no data arrived in time";
      return std::nullopt;
    }
    T value = std::move(values_.front());
    values_.pop_front();
    return value;
  }
  size_t size() {
    MutexLock lock(mutex_);
    return values_.size();
  }

 private:
  Mutex mutex_;
  CondVar filled_;
  std::deque<T> values_;
};

inline std::shared_ptr<const std::vector<std::byte>> Pattern(size_t bytes) {
  auto out = std::make_shared<std::vector<std::byte>>(bytes);
  for (size_t i = 0; i < bytes; ++i) (*out)[i] = static_cast<std::byte>((i * 2654435761u) >> 13);
  return out;
}

// Keeps uploads by digest, as a coordinator does; serves the contents given to it. Thread-safe.
class KeepingHandler final : public BulkHandler {
 public:
  struct Stored {
    std::vector<std::byte> bytes;
    bool accepted = false;
  };

  std::shared_ptr<UploadHandler> NewUpload(std::string) override { return std::make_shared<Upload>(*this); }
  void OnDownload(DownloadRequest request, DownloadReply reply) override {
    newest_limit = request.limit_bytes_per_second;
    MutexLock lock(mutex_);
    const auto* blob = std::get_if<BlobKey>(&request.key);
    DownloadContent content;
    if (blob != nullptr && files_.contains(blob->sha256)) {
      content.source = MakeMemorySource(files_.at(blob->sha256));
    } else if (blob != nullptr && sources_.contains(blob->sha256)) {
      content.source = sources_.at(blob->sha256);
    } else {
      return reply(absl::NotFoundError("no such file"));
    }
    content.header.total_bytes = content.source->size_bytes();
    content.header.version = {7};
    content.finished = [this](BulkResult result) { finished.Put(std::move(result)); };
    reply(std::move(content));
  }
  void OnMissingBlobs(std::vector<Sha256> blobs,
                      std::function<void(absl::StatusOr<std::vector<Sha256>>)> reply) override {
    MutexLock lock(mutex_);
    std::vector<Sha256> missing;
    for (const Sha256& blob : blobs) {
      if (!files_.contains(blob)) missing.push_back(blob);
    }
    reply(std::move(missing));
  }
  void Serve(const Sha256& sha, std::shared_ptr<const std::vector<std::byte>> bytes) {
    MutexLock lock(mutex_);
    files_[sha] = std::move(bytes);
  }
  void ServeFrom(const Sha256& sha, std::shared_ptr<BulkSource> source) {
    MutexLock lock(mutex_);
    sources_[sha] = std::move(source);
  }
  Stored StoredOf(Digest digest) {
    MutexLock lock(mutex_);
    return stored_[digest];
  }
  void Preload(Digest digest, std::vector<std::byte> bytes) {
    MutexLock lock(mutex_);
    stored_[digest].bytes = std::move(bytes);
  }
  // Refuses the next uploads, at their begin or at their end.
  void RefuseBegin(absl::Status status) {
    MutexLock lock(mutex_);
    begin_status_ = std::move(status);
  }
  void RefuseEnd(absl::Status status) {
    MutexLock lock(mutex_);
    end_status_ = std::move(status);
  }

  // Never answers at this stage of the upload with this digest.
  enum class Stage { kBegin, kBytes, kEnd };
  void Hold(Digest digest, Stage stage) {
    MutexLock lock(mutex_);
    held_[digest] = stage;
  }

  Inbox<absl::Status> broken;
  Inbox<BulkResult> finished;
  std::atomic<uint64_t> newest_limit{0};  // bytes a second, of the newest download

 private:
  class Upload final : public UploadHandler {
   public:
    explicit Upload(KeepingHandler& owner) : owner_(owner) {}
    void OnBegin(UploadHeader header, UploadReply reply) override {
      MutexLock lock(owner_.mutex_);
      if (!owner_.begin_status_.ok()) return reply(owner_.begin_status_);
      digest_ = std::get<ContributionUpload>(header).header.digest;
      if (Held(Stage::kBegin)) return;
      const Stored& stored = owner_.stored_[digest_];
      reply(UploadStatus{stored.bytes.size(), stored.accepted});
    }
    void OnBytes(uint64_t offset, BulkBytes bytes, StatusReply reply) override {
      MutexLock lock(owner_.mutex_);
      Stored& stored = owner_.stored_[digest_];
      if (offset != stored.bytes.size()) return reply(absl::OutOfRangeError("a gap"));
      if (Held(Stage::kBytes)) return;
      for (const Bytes& piece : bytes.pieces) stored.bytes.insert(stored.bytes.end(), piece.begin(), piece.end());
      reply(absl::OkStatus());
    }
    void OnEnd(StatusReply reply) override {
      MutexLock lock(owner_.mutex_);
      if (Held(Stage::kEnd)) return;
      if (owner_.end_status_.ok()) owner_.stored_[digest_].accepted = true;
      reply(owner_.end_status_);
    }
    void OnBroken(absl::Status why) override { owner_.broken.Put(std::move(why)); }

   private:
    bool Held(Stage stage) const ATOLL_NO_THREAD_SAFETY_ANALYSIS {
      const auto held = owner_.held_.find(digest_);
      return held != owner_.held_.end() && held->second == stage;
    }

    KeepingHandler& owner_;
    Digest digest_;
  };

  Mutex mutex_;
  std::map<Digest, Stored> stored_;
  std::map<Sha256, std::shared_ptr<const std::vector<std::byte>>> files_;
  std::map<Sha256, std::shared_ptr<BulkSource>> sources_;
  std::map<Digest, Stage> held_;
  absl::Status begin_status_, end_status_;
};

// Collects a download; may refuse after some bytes.
class CollectingSink final : public BulkSink {
 public:
  absl::Status OnHeader(const DownloadHeader& h) override {
    header = h;
    return absl::OkStatus();
  }
  absl::Status OnBytes(uint64_t offset, Bytes bytes) override {
    if (first_offset == UINT64_MAX) first_offset = offset;
    received.insert(received.end(), bytes.begin(), bytes.end());
    return received.size() >= refuse_after ? absl::CancelledError("the sink is full") : absl::OkStatus();
  }
  DownloadHeader header;
  uint64_t first_offset = UINT64_MAX;
  size_t refuse_after = SIZE_MAX;
  std::vector<std::byte> received;
};

inline UploadHeader UploadOf(const std::vector<std::byte>& bytes) {
  ContributionUpload upload;
  upload.header.job = {"tiny"};
  upload.header.worker = {"a"};
  upload.header.incarnation = {1};
  upload.header.digest = DigestOf(bytes);
  upload.header.encoded_bytes = bytes.size();
  return upload;
}

inline std::unique_ptr<Server> StartServer(const std::vector<grpc::Service*>& services,
                                           const std::string& address = "127.0.0.1:0") {
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start({.address = address}, ServerSecurity::PlaintextLoopback(), services);
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}
inline std::shared_ptr<grpc::Channel> BulkChannelTo(int port) {
  return *MakeBulkChannel({.address = "127.0.0.1:" + std::to_string(port)}, ChannelSecurity::PlaintextLoopback());
}

}  // namespace atl

#endif  // ATOLL_TESTS_UNIT_COMMON_RPC_RPC_FIXTURES_H_
