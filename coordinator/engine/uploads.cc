// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/uploads.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/codec/codec.h"
#include "coordinator/engine/job_data.h"

namespace atl {

absl::Status OpenSegment(RoundLog& rounds, const RoundKey& key, Digest layout,
                         const std::function<void(const absl::Status&)>& fatal) {
  absl::Status opened = rounds.Open(key, layout);
  if (IsFailedFlush(opened))
    fatal(Annotate(opened, "earlier accepted contributions of a round could not be made durable"));
  return opened;
}

absl::StatusOr<std::shared_ptr<const Uploads::Upload>> Uploads::Find(UploadId upload) const {
  MutexLock lock(mutex_);
  const auto it = uploads_.find(upload);
  if (it == uploads_.end()) return absl::CancelledError("the upload has ended");
  return it->second;
}

absl::Status Uploads::Begin(UploadId upload, const ContributionHeader& header, std::shared_ptr<UploadSink> sink) {
  const std::shared_ptr<JobData> data = parts_.jobs.Find(header.job);
  if (data == nullptr) {
    return parts_.jobs.WhyNotLoaded(
        header.job, absl::FailedPreconditionError(
                        absl::StrCat("job ", header.job.value, " accepts no contributions: it is not running")));
  }
  const size_t fragment = header.target.fragment.value;
  if (fragment >= data->layout.fragments.size()) {
    return absl::InvalidArgumentError(absl::StrCat("fragment ", fragment, " does not exist: job ", header.job.value,
                                                   " has ", data->layout.fragments.size(), " fragments"));
  }
  ATOLL_RETURN_IF_ERROR(
      CheckEncodedSize(header.codec, data->layout.fragments[fragment].elements, header.encoded_bytes));
  MutexLock lock(mutex_);
  uploads_[upload] = std::make_shared<const Upload>(
      Upload{{header.job, data->epoch, header.target},
             header,
             data->layout.digest,
             std::make_shared<ContributionScreener>(header.codec, data->layout.fragments[fragment].elements),
             std::move(sink)});
  return absl::OkStatus();
}

void Uploads::Grant(UploadId upload, Digest replaces) {
  parts_.io.Post([this, upload, replaces] { GrantNow(upload, replaces); });
}

void Uploads::GrantNow(UploadId upload, Digest replaces) {
  const auto known = Find(upload);
  if (!known.ok()) return;
  const RoundKey& key = (*known)->key;
  UploadSink& sink = *(*known)->sink;
  if (const std::shared_ptr<JobData> data = parts_.jobs.Find(key.job); data != nullptr) {
    MutexLock lock(data->mutex);
    const auto written = data->being_written.lower_bound({key.target.fragment, Version{0}});
    if (written != data->being_written.end() && written->first.fragment == key.target.fragment &&
        written->first.version < key.target.version) {
      data->behind_a_write.push_back([this, upload, replaces] { GrantNow(upload, replaces); });
      return;
    }
  }
  const absl::Status opened = OpenSegment(parts_.rounds, key, (*known)->layout, parts_.fatal);
  if (!opened.ok()) return sink.Refused(opened);
  const absl::StatusOr<uint64_t> offset = parts_.rounds.Begin(key, (*known)->header, replaces);
  if (!offset.ok()) return sink.Refused(offset.status());
  sink.Granted(*offset);
}

// If the append fails, the screening is wasted: the upload ends, and a resumed upload gets a new screener.
void Uploads::Append(UploadId upload, uint64_t offset_bytes, BulkBytes bytes, StatusReply reply) {
  if (const auto known = Find(upload); known.ok()) (*known)->screener->Update(offset_bytes, bytes.pieces);
  Arrived* const place = TakePlace();
  *place = {upload, offset_bytes, std::move(bytes), std::move(reply)};
  parts_.io.Post([this, place] { AppendNow(place); });
}

Uploads::Arrived* Uploads::TakePlace() {
  MutexLock lock(mutex_);
  if (free_places_.empty()) return places_.emplace_back(std::make_unique<Arrived>()).get();
  Arrived* const place = free_places_.back();
  free_places_.pop_back();
  return place;
}

void Uploads::AppendNow(Arrived* place) {
  const Arrived arrived = std::exchange(*place, {});
  {
    MutexLock lock(mutex_);
    free_places_.push_back(place);
  }
  const auto known = Find(arrived.upload);
  if (!known.ok()) return arrived.reply(known.status());
  const Upload& upload = **known;
  const BulkPieces& pieces = arrived.bytes.pieces;
  arrived.reply(parts_.rounds.Append(upload.key, upload.header.worker, arrived.offset_bytes, pieces));
}

void Uploads::Finish(UploadId upload, StatusReply failed) {
  parts_.io.Post([this, upload, failed = std::move(failed)] {
    const auto known = Find(upload);
    if (!known.ok()) return failed(known.status());
    const absl::Status complete = parts_.rounds.CheckComplete((*known)->key, (*known)->header.worker);
    if (!complete.ok()) return failed(complete);
    KeepScreen(**known);
    parts_.emit(UploadFinished{upload});
  });
}

void Uploads::KeepScreen(const Upload& upload) {
  const std::shared_ptr<JobData> data = parts_.jobs.Find(upload.key.job);
  const std::optional<ContributionScreen> screen = upload.screener->Finish();
  if (data == nullptr || !screen) return;
  MutexLock lock(data->mutex);
  data->screens[{upload.key.target, upload.header.worker}] = {upload.header.digest, *screen};
}

std::shared_ptr<const Uploads::Upload> Uploads::End(UploadId upload) {
  MutexLock lock(mutex_);
  const auto ended = uploads_.extract(upload);
  return ended.empty() ? nullptr : ended.mapped();
}

void Uploads::FlushAcceptance(UploadId upload) {
  MutexLock lock(mutex_);
  const auto known = uploads_.find(upload);
  if (known == uploads_.end()) return;
  const RoundKey& key = known->second->key;
  auto& due = to_accept_[key];
  due.emplace_back(upload, known->second->header.worker);  // the upload may end before the flush
  if (due.size() == 1) parts_.io.Post([this, key] { FlushAcceptances(key); });
}

void Uploads::FlushAcceptances(const RoundKey& key) {
  std::vector<std::pair<UploadId, WorkerId>> due;
  {
    MutexLock lock(mutex_);
    due = std::move(to_accept_.extract(key).mapped());
  }
  std::vector<WorkerId> workers;
  for (const auto& [upload, worker] : due) workers.push_back(worker);
  const absl::Status accepted = parts_.rounds.Accept(key, workers, parts_.clock.WallNanos());
  if (!accepted.ok())
    return parts_.fatal(Annotate(accepted, "the acceptance of a contribution could not be made durable"));
  for (const auto& [upload, worker] : due) parts_.emit(ContributionDurable{upload});
}

}  // namespace atl
