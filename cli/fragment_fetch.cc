// SPDX-License-Identifier: Apache-2.0
#include "cli/fragment_fetch.h"

#include "absl/strings/str_cat.h"
#include "common/rpc/transfer_failure.h"
#include "common/wire/resource_names.h"

namespace atl::cli {
namespace {

constexpr int kAttempts = 10;  // attempts without progress
constexpr Duration kPause = Seconds(1);

class FragmentSink final : public BulkSink {
 public:
  FragmentSink(File& file, const FragmentOfCheckpoint& fragment, std::function<void(uint64_t)> on_bytes)
      : file_(file), fragment_(fragment), on_bytes_(std::move(on_bytes)) {}

  absl::Status OnHeader(const DownloadHeader& header) override {
    if (header.total_bytes != Expected())
      return absl::DataLossError(
          absl::StrCat("the coordinator sends ", header.total_bytes, " bytes, but the checkpoint has ", Expected()));
    if (header.hash == fragment_.content_hash) return absl::OkStatus();
    return absl::AbortedError(
        absl::StrCat("checkpoint ", CheckpointNameOf(fragment_.key.job, fragment_.key.step),
                     " was written again, after a rollback, since this command began: ", "run the command again"));
  }
  absl::Status OnBytes(uint64_t offset, Bytes bytes) override {
    if (offset != received_) return absl::InternalError("bytes arrived out of order");
    ATOLL_RETURN_IF_ERROR(file_.Append(bytes));
    hasher_.Update(bytes);
    received_ += bytes.size();
    on_bytes_(received_);
    return absl::OkStatus();
  }
  uint64_t received() const { return received_; }
  absl::Status Check() {
    if (received_ != Expected()) return absl::DataLossError("the download ended early");
    if (hasher_.Finish(fragment_.version, fragment_.layout) == fragment_.content_hash) return absl::OkStatus();
    return absl::DataLossError("the bytes received differ from the committed bytes");
  }

 private:
  uint64_t Expected() const { return fragment_.elements * sizeof(float); }

  File& file_;
  const FragmentOfCheckpoint fragment_;
  std::function<void(uint64_t)> on_bytes_;
  uint64_t received_ = 0;
  ContentHasher hasher_;
};

class StringSink final : public BulkSink {
 public:
  explicit StringSink(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  absl::Status OnHeader(const DownloadHeader& header) override {
    if (header.total_bytes <= limit_bytes_) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("the file has ", header.total_bytes, " bytes, more than the limit of ", limit_bytes_));
  }
  absl::Status OnBytes(uint64_t offset, Bytes bytes) override {
    if (offset != text_.size() || bytes.size() > limit_bytes_ - text_.size())
      return absl::InternalError("bytes arrived out of order");
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return absl::OkStatus();
  }
  const std::string& text() const { return text_; }

 private:
  const uint64_t limit_bytes_;
  std::string text_;
};

// Forwards to `inner` and records its errors, after which DownloadAll does not retry.
class ObjectingSink final : public BulkSink {
 public:
  explicit ObjectingSink(std::shared_ptr<BulkSink> inner) : inner_(std::move(inner)) {}
  absl::Status OnHeader(const DownloadHeader& header) override { return Kept(inner_->OnHeader(header)); }
  absl::Status OnBytes(uint64_t offset, Bytes bytes) override { return Kept(inner_->OnBytes(offset, bytes)); }
  const absl::Status& objection() const { return objection_; }

 private:
  absl::Status Kept(absl::Status status) {
    objection_.Update(status);
    return status;
  }

  const std::shared_ptr<BulkSink> inner_;
  absl::Status objection_;
};

// Downloads from the offset that `received` returns. Retries after outages until kAttempts in a row made no progress.
template <typename Received>
absl::Status DownloadAll(Session& session, DownloadRequest request, const std::shared_ptr<BulkSink>& sink,
                         const Received& received) {
  const auto objecting = std::make_shared<ObjectingSink>(sink);
  for (int left = kAttempts;;) {
    ATOLL_RETURN_IF_ERROR(CheckTimeIsLeft(session));
    const uint64_t before = received();
    request.offset_bytes = before;
    absl::Status status = session.api.Download(request, objecting);
    ATOLL_RETURN_IF_ERROR(objecting->objection());
    // Cancelled comes from the person at the command line.
    if (FailureOf(status) != TransferFailure::kOutage || absl::IsCancelled(status)) return status;
    left = received() > before ? kAttempts : left - 1;
    if (left == 0) return status;
    ATOLL_RETURN_IF_ERROR(PauseBeforeRetry(session, kPause));
  }
}

absl::Status FetchFragmentOnce(Session& session, const FragmentOfCheckpoint& fragment, const std::string& path,
                               FragmentUse use, const std::function<void(uint64_t bytes)>& on_bytes) {
  ATOLL_RETURN_IF_ERROR(session.files.Remove(path));
  ATOLL_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, session.files.OpenForAppend(path));
  const auto sink = std::make_shared<FragmentSink>(*file, fragment, on_bytes);
  DownloadRequest request;
  request.key = fragment.key;
  ATOLL_RETURN_IF_ERROR(DownloadAll(session, request, sink, [&] { return sink->received(); }));
  ATOLL_RETURN_IF_ERROR(sink->Check());
  return use == FragmentUse::kKept ? file->Sync() : absl::OkStatus();
}

}  // namespace

absl::Status FetchFragment(Session& session, const FragmentOfCheckpoint& fragment, const std::string& path,
                           FragmentUse use, const std::function<void(uint64_t bytes)>& on_bytes) {
  absl::Status status = FetchFragmentOnce(session, fragment, path, use, on_bytes);
  // A second attempt fixes bytes that were damaged in transit.
  if (absl::IsDataLoss(status)) status = FetchFragmentOnce(session, fragment, path, use, on_bytes);
  const uint32_t index = fragment.key.fragment.value;
  if (!absl::IsDataLoss(status)) return Annotate(status, absl::StrCat("fragment ", index));
  return absl::DataLossError(absl::StrCat("the coordinator's file of fragment ", index, " of checkpoint ",
                                          CheckpointNameOf(fragment.key.job, fragment.key.step), " is damaged (",
                                          std::string(status.message()),
                                          "): run atoll-coordinator verify --state DIR at the coordinator, or choose "
                                          "another checkpoint from atoll checkpoint list ",
                                          fragment.key.job.value));
}

absl::StatusOr<std::string> FetchBlob(Session& session, const Sha256& sha256, uint64_t limit_bytes) {
  const auto sink = std::make_shared<StringSink>(limit_bytes);
  DownloadRequest request;
  request.key = BlobKey{sha256};
  ATOLL_RETURN_IF_ERROR(DownloadAll(session, request, sink, [&] { return sink->text().size(); }));
  if (Sha256Of(AsBytes(sink->text())) != sha256) {
    return absl::DataLossError(absl::StrCat("the stored file ", sha256.Hex(), " arrived damaged"));
  }
  return sink->text();
}

}  // namespace atl::cli
