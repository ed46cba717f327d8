// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/download_rights.h"

#include <variant>

#include "absl/strings/str_cat.h"

namespace atl {

void DownloadRights::Put(const JobRecord& record) {
  std::set<Sha256>& manifests = manifests_[record.job];
  for (const CorpusSpec& corpus : record.spec.data.corpora) manifests.insert(corpus.manifest);
  initial_.insert(record.spec.init.safetensors.begin(), record.spec.init.safetensors.end());
}

void DownloadRights::Put(const WorkerRecord& record) {
  if (record.job.value.empty()) {
    job_of_.erase(record.worker);
  } else {
    job_of_[record.worker] = record.job;
  }
}

void DownloadRights::Recover(const RecoveredState& recovered) {
  MutexLock lock(mutex_);
  for (const RecoveredJob& job : recovered.jobs) Put(job.job);
  for (const WorkerRecord& worker : recovered.workers) Put(worker);
}

void DownloadRights::Apply(const std::vector<LedgerRecord>& records) {
  MutexLock lock(mutex_);
  for (const LedgerRecord& record : records) {
    if (const auto* job = std::get_if<JobRecord>(&record)) Put(*job);
    if (const auto* worker = std::get_if<WorkerRecord>(&record)) Put(*worker);
    if (const auto* forgotten = std::get_if<WorkerForgotten>(&record)) job_of_.erase(forgotten->worker);
  }
}

absl::Status DownloadRights::CheckMember(const WorkerId& worker, const JobId& job) const {
  MutexLock lock(mutex_);
  const auto found = job_of_.find(worker);
  if (found != job_of_.end() && found->second == job) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("worker ", worker.value, " is not assigned to job ", job.value,
                                             "; request again after the assignment"));
}

absl::Status DownloadRights::CheckCorpus(const JobId& job, const Sha256& manifest) const {
  MutexLock lock(mutex_);
  const auto found = manifests_.find(job);
  if (found != manifests_.end() && found->second.contains(manifest)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("job ", job.value, " has no corpus with that manifest"));
}

absl::Status DownloadRights::CheckFile(const Sha256& file) const {
  MutexLock lock(mutex_);
  if (!initial_.contains(file)) return absl::OkStatus();
  return absl::PermissionDeniedError("workers may not download a job's initial weights");
}

absl::Status DownloadRights::Check(const DownloadRequest& request) const {
  if (request.worker.value.empty()) return absl::OkStatus();
  struct Visitor {
    const DownloadRights& rights;
    const WorkerId& worker;
    absl::Status operator()(const UpdateKey& key) const { return rights.CheckMember(worker, key.job); }
    absl::Status operator()(const FragmentKey& key) const { return rights.CheckMember(worker, key.job); }
    absl::Status operator()(const CheckpointFragmentKey& key) const { return rights.CheckMember(worker, key.job); }
    absl::Status operator()(const BlockKey& key) const {
      ATOLL_RETURN_IF_ERROR(rights.CheckMember(worker, key.job));
      return rights.CheckCorpus(key.job, key.manifest);
    }
    absl::Status operator()(const BlobKey& key) const { return rights.CheckFile(key.sha256); }
    absl::Status operator()(const Probe&) const { return absl::OkStatus(); }
  };
  return std::visit(Visitor{*this, request.worker}, request.key);
}

}  // namespace atl
