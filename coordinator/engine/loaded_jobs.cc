// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/loaded_jobs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/engine/job_data.h"

namespace atl {

std::shared_ptr<JobData> LoadedJobs::Find(const JobId& job) const {
  MutexLock lock(mutex_);
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? nullptr : it->second;
}

absl::Status LoadedJobs::WhyNotLoaded(const JobId& job, absl::Status otherwise) const {
  MutexLock lock(mutex_);
  // Unavailable also if the job became ready since the caller's Find: a retry finds it.
  if (!loading_.contains(job) && !jobs_.contains(job)) return otherwise;
  return absl::UnavailableError(absl::StrCat("job ", job.value, " is being loaded by the coordinator; ask again"));
}

uint64_t LoadedJobs::Expect(const JobId& job) {
  MutexLock lock(mutex_);
  return loading_[job] = ++preparations_;
}

bool LoadedJobs::IsExpected(const JobId& job, uint64_t number) const {
  MutexLock lock(mutex_);
  const auto expected = loading_.find(job);
  return expected != loading_.end() && expected->second == number;
}

bool LoadedJobs::Put(std::shared_ptr<JobData> data, uint64_t number) {
  MutexLock lock(mutex_);
  const auto expected = loading_.find(data->job);
  if (expected == loading_.end() || expected->second != number) return false;
  loading_.erase(expected);
  jobs_[data->job] = std::move(data);
  return true;
}

std::shared_ptr<JobData> LoadedJobs::Release(const JobId& job) {
  MutexLock lock(mutex_);
  loading_.erase(job);
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return nullptr;
  std::shared_ptr<JobData> data = std::move(it->second);
  jobs_.erase(it);
  return data;
}

size_t LoadedJobs::size() const {
  MutexLock lock(mutex_);
  return jobs_.size();
}

LoadedJobs::All LoadedJobs::Look() const {
  MutexLock lock(mutex_);
  All all;
  for (const auto& [job, data] : jobs_) all.loaded.push_back(data);
  for (const auto& [job, number] : loading_) all.loading.push_back(job);
  return all;
}

}  // namespace atl
