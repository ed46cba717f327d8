// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "common/rpc/transfer_failure.h"
#include "worker/link/link_state.h"

namespace atl {
namespace {

constexpr uint64_t kWorthMeasuring = 1 << 20;
constexpr size_t kBuffersKept = 1;

bool IsFinal(const absl::Status& status) { return !status.ok() && FailureOf(status) == TransferFailure::kFinal; }

// Encoded bytes of a contribution, with a callback for when all are sent.
class ContributionSource final : public BulkSource {
 public:
  ContributionSource(SharedBytes bytes, std::function<void()> sent)
      : bytes_(MakeMemorySource(std::move(bytes))), sent_(std::move(sent)) {}
  uint64_t size_bytes() const override { return bytes_->size_bytes(); }
  absl::StatusOr<BulkBytes> Read(uint64_t offset, size_t bytes) override { return bytes_->Read(offset, bytes); }
  void OnAllSent() override { sent_(); }
  bool in_memory() const override { return true; }
  uint32_t Crc32cOf(uint64_t offset, const BulkBytes& bytes) const override { return bytes_->Crc32cOf(offset, bytes); }

 private:
  const std::shared_ptr<BulkSource> bytes_;
  const std::function<void()> sent_;
};

}  // namespace

Transfers::Transfers(Parts parts)
    : parts_(std::move(parts)),
      buffers_(std::make_shared<BufferShelf>(kBuffersKept)),
      upload_window_(parts_.clock),
      download_window_(parts_.clock) {}
Transfers::~Transfers() = default;

Instant Transfers::Turn() {
  const Instant now = parts_.clock.Now();
  Instant wake = kNever;
  Line up, whole, updates;
  for (auto& [fragment, upload] : uploads_) {
    wake = std::min(wake, Look(upload.talk, now, up, [&u = upload, this] { Begin(u); }));
  }
  for (auto& [id, download] : downloads_) {
    if (download.dropped && !download.talk.call) continue;
    Line& line = download.whole ? whole : updates;
    wake = std::min(wake, Look(download.talk, now, line, [&d = download, &i = id, this] { Begin(i, d); }));
  }
  for (const Line& line : {up, whole, updates}) {
    if (line.busy || line.next == nullptr) continue;
    line.begin();
    wake = std::min(wake, line.next->give_up_at);
  }
  return wake;
}

Instant Transfers::Look(Conversation& talk, Instant now, Line& line, std::function<void()> begin) {
  if (talk.call) {
    line.busy = line.busy || !talk.sent;
    if (now < talk.give_up_at) return talk.give_up_at;
    talk.give_up_at = kNever;
    talk.overdue = true;
    talk.call->Cancel();  // ends as Cancelled and is retried
    return kNever;
  }
  if (now < talk.try_at) return talk.try_at;
  if (line.next == nullptr || talk.asked < line.next->asked) {
    line.next = &talk;
    line.begin = std::move(begin);
  }
  return kNever;
}

// ---- uploads ------------------------------------------------------------------------------------------------------

void Transfers::StartUpload(ContributionUpload contribution, SharedBytes bytes) {
  const FragmentIndex fragment = contribution.header.target.fragment;
  uploads_.erase(fragment);
  UploadJob& upload = uploads_[fragment];
  upload.talk.asked = next_number_++;
  upload.contribution = std::move(contribution);
  upload.bytes = std::move(bytes);
}

void Transfers::Begin(UploadJob& upload) {
  Prepare(upload.talk, upload.bytes->size(), upload_window_);
  const FragmentIndex fragment = upload.contribution.header.target.fragment;
  const auto sent = [this, mailbox = parts_.mailbox, fragment, number = upload.talk.number] {
    mailbox->Post([this, fragment, number] { OnUploadSent(fragment, number); });
  };
  upload.talk.call =
      parts_.bulk.Upload(upload.contribution, std::make_shared<ContributionSource>(upload.bytes, sent),
                         [this, mailbox = parts_.mailbox, fragment, number = upload.talk.number](BulkResult result) {
                           mailbox->Post([this, fragment, number, result] { OnUploadDone(fragment, number, result); });
                         });
}

void Transfers::OnUploadSent(FragmentIndex fragment, uint64_t number) {
  const auto it = uploads_.find(fragment);
  if (it != uploads_.end() && it->second.talk.number == number) it->second.talk.sent = true;
}

void Transfers::OnUploadDone(FragmentIndex fragment, uint64_t number, const BulkResult& result) {
  uploaded_bytes_ += result.payload_bytes;
  const auto it = uploads_.find(fragment);
  if (it == uploads_.end() || it->second.talk.number != number) return;
  UploadJob& upload = it->second;
  Measure(upload.talk, result, upload_mean_);
  Close(upload.talk, result, upload_window_);
  const ContributionHeader& header = upload.contribution.header;
  const FragmentVersion target = header.target;
  if (!result.status.ok() && !IsFinal(result.status)) {
    TryAgain(upload.talk, absl::StrCat("contribution to fragment ", fragment.value, " version ", target.version.value),
             WhyOf(upload.talk, result, result.resumed_at + result.payload_bytes, upload.bytes->size()));
    return;
  }
  worker::UploadEnded ended{target, header.digest, worker::UploadResult::kAccepted, ""};
  if (!result.status.ok()) {
    ended.result = worker::UploadResult::kRefused;
    ended.reason = std::string(result.status.message());
  }
  uploads_.erase(it);
  parts_.listener(worker::Event(std::move(ended)));
}

// ---- downloads ----------------------------------------------------------------------------------------------------

void Transfers::StartDownload(const JobId& job, FragmentVersion at, bool whole, uint64_t bytes) {
  const DownloadId id{at.fragment, {whole, whole ? Version{} : at.version}};
  const auto begun = downloads_.find(id);
  if (begun != downloads_.end() && !(whole && begun->second.job == job && begun->second.bytes == bytes))
    downloads_.erase(begun);
  DownloadJob& download = downloads_[id];
  download.talk.asked = next_number_++;
  download.talk.attempts = 0;
  download.job = job;
  download.asked = at;
  download.whole = whole;
  download.dropped = false;
  download.bytes = bytes;
  if (download.sink == nullptr) download.sink = std::make_shared<DownloadBuffer>(bytes, buffers_);
}

void Transfers::Begin(DownloadId id, DownloadJob& download) {
  download.sink->PrepareResume(download.whole ? download.asked.version : Version{});
  Prepare(download.talk, download.bytes - download.sink->size(), download_window_);
  DownloadRequest request;
  if (download.whole && download.sink->size() > 0) {  // continues only with the version of the received part
    request.key = FragmentKey{download.job, {download.asked.fragment, download.sink->header()->version}, false};
  } else if (download.whole) {
    request.key = FragmentKey{download.job, download.asked, true};
  } else {
    request.key = UpdateKey{download.job, download.asked};
  }
  request.offset_bytes = download.sink->size();
  request.worker = parts_.options.worker;
  download.talk.call =
      parts_.bulk.Download(std::move(request), download.sink,
                           [this, mailbox = parts_.mailbox, id, number = download.talk.number](BulkResult result) {
                             mailbox->Post([this, id, number, result] { OnDownloadDone(id, number, result); });
                           });
}

void Transfers::OnDownloadDone(const DownloadId& id, uint64_t number, const BulkResult& result) {
  downloaded_bytes_ += result.payload_bytes;
  const auto it = downloads_.find(id);
  if (it == downloads_.end() || it->second.talk.number != number) return;
  DownloadJob& download = it->second;
  if (download.dropped) {
    download.talk = Conversation();
    return;
  }
  Measure(download.talk, result, download_mean_);
  Close(download.talk, result, download_window_);
  const std::optional<DownloadHeader>& header = download.sink->header();
  absl::Status status =
      WhyOf(download.talk, result, download.sink->size(), header ? header->total_bytes : download.bytes);
  if (status.ok() && !download.sink->complete()) status = absl::DataLossError("the transfer ended early");
  if (status.ok() && !download.sink->intact()) {
    download.sink->Clear();
    status = absl::DataLossError("the bytes do not have the announced digest");
  }
  // The version of the received part is no longer stored, which the request or a read during the download showed.
  const bool gone = download.whole && header && absl::IsNotFound(status);
  if (gone) download.sink->Clear();
  if (status.ok() || (IsFinal(status) && !gone)) {
    FinishDownload(id, status);
    return;
  }
  if (result.payload_bytes > 0 && status.code() != absl::StatusCode::kDataLoss) download.talk.attempts = 0;
  if (FailureOf(status) == TransferFailure::kBroken && ++download.talk.attempts >= kDownloadAttempts) {
    FinishDownload(id, status);
    return;
  }
  TryAgain(download.talk, absl::StrCat(download.whole ? "fragment " : "update of fragment ", id.first.value), status);
}

void Transfers::FinishDownload(const DownloadId& id, const absl::Status& status) {
  const auto it = downloads_.find(id);
  DownloadJob download = std::move(it->second);
  downloads_.erase(it);
  if (status.ok()) {
    const DownloadHeader header = *download.sink->header();
    const FragmentVersion at{download.asked.fragment, download.whole ? header.version : download.asked.version};
    parts_.listener(FetchedBytes{download.job, at, download.whole, header.hash, download.sink->Take()});
    return;
  }
  const std::string reason(status.message());
  if (download.whole) {
    parts_.listener(worker::Event(worker::FragmentFetchFailed{download.asked.fragment, reason}));
  } else {
    parts_.listener(worker::Event(worker::UpdateFetchFailed{download.asked, reason}));
  }
}

void Transfers::DropFetches(FragmentIndex fragment) {
  std::erase_if(downloads_, [&](const auto& entry) { return entry.first.first == fragment && !entry.second.whole; });
  const auto whole = downloads_.find({fragment, {true, Version{}}});
  if (whole == downloads_.end()) return;
  whole->second.dropped = true;
  if (whole->second.talk.call) whole->second.talk.call->Cancel();
}

void Transfers::DropAll() {
  uploads_.clear();
  downloads_.clear();
  buffers_ = std::make_shared<BufferShelf>(kBuffersKept);
}

// ---- conversations ------------------------------------------------------------------------------------------------

void Transfers::Close(Conversation& talk, const BulkResult& result, RateWindow& window) {
  // Cancelled counts too: the transfer exceeded its limit, which is a measure of a slow link.
  const bool telling = result.status.ok() || IsFinal(result.status) || absl::IsCancelled(result.status);
  if (talk.use && telling) window.Sample(*talk.use, result.payload_bytes);
  talk.use.reset();
  talk.call.reset();
}

void Transfers::Prepare(Conversation& talk, uint64_t bytes, RateWindow& window) {
  talk.use = window.Begin();
  talk.sent = false;
  talk.number = next_number_++;
  talk.overdue = false;
  talk.began = parts_.clock.Now();
  talk.limit = TransferLimit::Of(bytes, any_mean_.bytes_per_second());
  talk.give_up_at = talk.began + talk.limit.whole();
  if (!talk.backoff) talk.backoff.emplace(parts_.options.backoff, parts_.options.seed + talk.number);
}

void Transfers::TryAgain(Conversation& talk, const std::string& what, const absl::Status& why) {
  const Duration wait = talk.backoff->Next();
  talk.try_at = parts_.clock.Now() + wait;
  parts_.log.Info("transfer interrupted",
                  {{"what", what}, {"why", std::string(why.message())}, {"again_in_ms", wait.ns / 1'000'000}});
}

void Transfers::Measure(const Conversation& talk, const BulkResult& result, MovingRate& mean) {
  const Duration took = parts_.clock.Now() - talk.began;
  if (result.payload_bytes >= kWorthMeasuring) any_mean_.Add(result.payload_bytes, took);
  if (result.status.ok() && result.payload_bytes >= kRateBytes) mean.Add(result.payload_bytes, took);
}

absl::Status Transfers::WhyOf(const Conversation& talk, const BulkResult& result, uint64_t moved,
                              uint64_t total) const {
  if (!talk.overdue || !absl::IsCancelled(result.status)) return result.status;
  return absl::DeadlineExceededError(talk.limit.Passed(parts_.clock.Now() - talk.began, moved, total));
}

}  // namespace atl
