#include "coordinator/engine/data_plane.h"

#include <algorithm>
#include <utility>

#include "common/codec/codec.h"
#include "coordinator/engine/engine.h"

namespace atl {

DataPlane::DataPlane(DataPlaneParts parts) : parts_(std::move(parts)), manifests_(parts_.blobs) {}
DataPlane::~DataPlane() = default;

void DataPlane::SetEventSink(std::function<void(Event)> sink) {
  MutexLock lock(mutex_);
  sink_ = std::move(sink);
}

void DataPlane::Emit(Event event) {
  std::function<void(Event)> sink;
  {
    MutexLock lock(mutex_);
    sink = sink_;
  }
  if (sink) sink(std::move(event));
}

void DataPlane::Fail(const JobId& job, const absl::Status& status) {
  Emit(TaskFailed{job, std::string(status.message())});
}

std::shared_ptr<JobData> DataPlane::Find(const JobId& job) const {
  MutexLock lock(mutex_);
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? nullptr : it->second;
}

absl::Status DataPlane::WhyNotLoaded(const JobId& job, absl::Status otherwise) const {
  MutexLock lock(mutex_);
  // Also when it became ready since: the next try finds it.
  if (!loading_.contains(job) && !jobs_.contains(job)) return otherwise;
  return absl::UnavailableError(absl::StrCat("job ", job.value, " is being loaded by the coordinator; ask again"));
}

uint64_t DataPlane::Expect(const JobId& job) {
  MutexLock lock(mutex_);
  return loading_[job] = ++preparations_;
}

size_t DataPlane::JobsInMemory() const {
  MutexLock lock(mutex_);
  return jobs_.size();
}

RoundMeasures DataPlane::MeasuresOf(const JobId& job, FragmentIndex fragment) const {
  const std::shared_ptr<JobData> data = Find(job);
  if (data == nullptr) return {};
  MutexLock lock(data->mutex);
  return data->measures[fragment];
}

void DataPlane::Release(const JobId& job) {
  std::shared_ptr<JobData> data;
  {
    MutexLock lock(mutex_);
    loading_.erase(job);
    const auto it = jobs_.find(job);
    if (it == jobs_.end()) return;
    data = std::move(it->second);
    jobs_.erase(it);
  }
  parts_.compute.Post([this] { std::vector<std::vector<std::byte>>().swap(inputs_); });
  parts_.io.Post([this, data] {
    for (const auto& [fragment, version] : [&data] {
           MutexLock lock(data->mutex);
           return data->committed;
         }()) {
      parts_.rounds.Close({data->job, data->epoch, {fragment, version}});
    }
  });
}

absl::StatusOr<std::shared_ptr<const DataPlane::Upload>> DataPlane::FindUpload(UploadId upload) const {
  MutexLock lock(mutex_);
  const auto it = uploads_.find(upload);
  if (it == uploads_.end()) return absl::CancelledError("the upload has ended");
  return it->second;
}

absl::Status DataPlane::BeginUpload(UploadId upload, const ContributionHeader& header) {
  const std::shared_ptr<JobData> data = Find(header.job);
  if (data == nullptr) {
    return WhyNotLoaded(header.job, absl::FailedPreconditionError(absl::StrCat(
                                        "job ", header.job.value, " takes no contributions: it is not running")));
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
             std::make_shared<ContributionScreener>(header.codec, data->layout.fragments[fragment].elements)});
  return absl::OkStatus();
}

void DataPlane::GrantUpload(UploadId upload, std::shared_ptr<UploadSink> sink, Digest replaces) {
  parts_.io.Post([this, upload, sink = std::move(sink), replaces] { Grant(upload, sink, replaces); });
}

absl::Status DataPlane::OpenSegment(const RoundKey& key, Digest layout) {
  absl::Status opened = parts_.rounds.Open(key, layout);
  if (IsFailedFlush(opened))
    parts_.fatal(Annotate(opened, "what a round has accepted before could not be made durable"));
  return opened;
}

void DataPlane::Grant(UploadId upload, std::shared_ptr<UploadSink> sink, Digest replaces) {
  const auto known = FindUpload(upload);
  if (!known.ok()) return sink->Refused(known.status());
  const RoundKey& key = (*known)->key;
  if (const std::shared_ptr<JobData> data = Find(key.job); data != nullptr) {
    MutexLock lock(data->mutex);
    const auto written = data->being_written.lower_bound({key.target.fragment, Version{0}});
    if (written != data->being_written.end() && written->first.fragment == key.target.fragment &&
        written->first.version < key.target.version) {
      data->behind_a_write.push_back(
          [this, upload, sink = std::move(sink), replaces] { Grant(upload, sink, replaces); });
      return;
    }
  }
  const absl::Status opened = OpenSegment(key, (*known)->layout);
  if (!opened.ok()) return sink->Refused(opened);
  const absl::StatusOr<uint64_t> offset = parts_.rounds.Begin(key, (*known)->header, replaces);
  if (!offset.ok()) return sink->Refused(offset.status());
  sink->Granted(*offset);
}

// What cannot be appended has been screened for nothing: its upload ends, and one that goes on has another screener.
void DataPlane::AppendUpload(UploadId upload, uint64_t offset_bytes, BulkBytes bytes, StatusReply reply) {
  if (const auto known = FindUpload(upload); known.ok()) (*known)->screener->Update(offset_bytes, bytes.pieces);
  Arrived* const place = TakePlace();
  *place = {upload, offset_bytes, std::move(bytes), std::move(reply)};
  parts_.io.Post([this, place] { Append(place); });
}

DataPlane::Arrived* DataPlane::TakePlace() {
  MutexLock lock(mutex_);
  if (free_places_.empty()) return places_.emplace_back(std::make_unique<Arrived>()).get();
  Arrived* const place = free_places_.back();
  free_places_.pop_back();
  return place;
}

void DataPlane::Append(Arrived* place) {
  const Arrived arrived = std::exchange(*place, {});
  {
    MutexLock lock(mutex_);
    free_places_.push_back(place);
  }
  const auto known = FindUpload(arrived.upload);
  if (!known.ok()) return arrived.reply(known.status());
  const Upload& upload = **known;
  const BulkPieces& pieces = arrived.bytes.pieces;
  arrived.reply(parts_.rounds.Append(upload.key, upload.header.worker, arrived.offset_bytes, pieces));
}

void DataPlane::FinishUpload(UploadId upload, StatusReply failed) {
  parts_.io.Post([this, upload, failed = std::move(failed)] {
    const auto known = FindUpload(upload);
    if (!known.ok()) return failed(known.status());
    const absl::Status complete = parts_.rounds.CheckComplete((*known)->key, (*known)->header.worker);
    if (!complete.ok()) return failed(complete);
    KeepScreen(**known);
    Emit(UploadFinished{upload});
  });
}

void DataPlane::KeepScreen(const Upload& upload) {
  const std::shared_ptr<JobData> data = Find(upload.key.job);
  const std::optional<ContributionScreen> screen = upload.screener->Finish();
  if (data == nullptr || !screen) return;
  MutexLock lock(data->mutex);
  data->screens[{upload.key.target, upload.header.worker}] = {upload.header.digest, *screen};
}

void DataPlane::EndUpload(UploadId upload) {
  MutexLock lock(mutex_);
  uploads_.erase(upload);
}

absl::Status DataPlane::CheckRoom(uint64_t bytes) const {
  ATOLL_ASSIGN_OR_RETURN(const Files::Space space, parts_.files.SpaceAt(parts_.directory.root()));
  const uint64_t reserve = space.total_bytes / 10;
  const uint64_t left = space.free_bytes - std::min(space.free_bytes, reserve);
  if (bytes <= left) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the file has ", bytes, " bytes that are to be stored, and the coordinator's disk has room for ", left,
      " before it is almost full; free space on the disk of the state directory, or raise "
      "--disk-budget where it is given"));
}

void DataPlane::FlushAcceptance(UploadId upload) {
  MutexLock lock(mutex_);
  const auto known = uploads_.find(upload);
  if (known == uploads_.end()) return;
  const RoundKey& key = known->second->key;
  auto& due = to_accept_[key];
  due.emplace_back(upload, known->second->header.worker);  // its upload may end before
  if (due.size() == 1) parts_.io.Post([this, key] { FlushAcceptances(key); });
}

void DataPlane::FlushAcceptances(const RoundKey& key) {
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
  for (const auto& [upload, worker] : due) Emit(ContributionDurable{upload});
}

}  // namespace atl
