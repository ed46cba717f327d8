// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/data_plane.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace atl {

DataPlane::DataPlane(DataPlaneParts parts)
    : parts_(std::move(parts)),
      manifests_(parts_.blobs),
      uploads_({parts_.clock, parts_.io, parts_.rounds, jobs_, [this](Event event) { Emit(std::move(event)); },
                parts_.fatal}) {}
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

RoundMeasures DataPlane::MeasuresOf(const JobId& job, FragmentIndex fragment) const {
  const std::shared_ptr<JobData> data = jobs_.Find(job);
  if (data == nullptr) return {};
  MutexLock lock(data->mutex);
  return data->measures[fragment];
}

void DataPlane::Release(const JobId& job) {
  const std::shared_ptr<JobData> data = jobs_.Release(job);
  if (data == nullptr) return;
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

absl::StatusOr<BlobStore::Begun> DataPlane::BeginBlob(const Sha256& sha256, uint64_t bytes) {
  ATOLL_ASSIGN_OR_RETURN(const Files::Space space, parts_.files.SpaceAt(parts_.directory.root()));
  const uint64_t promised = parts_.blobs.StillToCome(sha256);
  ATOLL_ASSIGN_OR_RETURN(const BlobStore::Begun begun, parts_.blobs.Begin(sha256, bytes));
  const uint64_t taken = space.total_bytes / 10 + promised;
  const uint64_t left = space.free_bytes - std::min(space.free_bytes, taken);
  const uint64_t wanted = bytes - begun.length;  // stored bytes already use their space
  if (wanted <= left) return begun;
  parts_.blobs.Suspend(sha256, begun.turn);
  return absl::ResourceExhaustedError(
      absl::StrCat("the file has ", wanted, " bytes to store, but the coordinator's disk has space for ", left,
                   " before it is almost full", promised > 0 ? ", besides other uploads in progress" : "",
                   "; free space on the disk of the state directory, or raise --disk-budget if it is given"));
}

}  // namespace atl
