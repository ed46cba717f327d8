// SPDX-License-Identifier: Apache-2.0
// Which jobs have their parameters in memory, and which are being brought there. Thread-safe.
#ifndef ATOLL_COORDINATOR_ENGINE_LOADED_JOBS_H_
#define ATOLL_COORDINATOR_ENGINE_LOADED_JOBS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/plan/records.h"

namespace atl {

struct JobData;  // job_data.h

class LoadedJobs {
 public:
  // Null: not in memory.
  std::shared_ptr<JobData> Find(const JobId& job) const ATOLL_EXCLUDES(mutex_);
  // Of a job that Find does not find: Unavailable while it is being loaded, else `otherwise`.
  absl::Status WhyNotLoaded(const JobId& job, absl::Status otherwise) const ATOLL_EXCLUDES(mutex_);

  // The job is being loaded from now on, by a preparation of the number that comes back; one before it is none any
  // more.
  uint64_t Expect(const JobId& job) ATOLL_EXCLUDES(mutex_);
  // False: released or begun anew since the preparation of that number began.
  bool IsExpected(const JobId& job, uint64_t number) const ATOLL_EXCLUDES(mutex_);
  // The preparation of that number is over. False, and nothing is changed, unless it is expected.
  bool Put(std::shared_ptr<JobData> data, uint64_t number) ATOLL_EXCLUDES(mutex_);
  // Neither loaded nor expected from now on. What was in memory, or null.
  std::shared_ptr<JobData> Release(const JobId& job) ATOLL_EXCLUDES(mutex_);

  size_t size() const ATOLL_EXCLUDES(mutex_);  // in memory
  struct All {
    std::vector<std::shared_ptr<JobData>> loaded;
    std::vector<JobId> loading;
  };
  All Look() const ATOLL_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::map<JobId, std::shared_ptr<JobData>> jobs_ ATOLL_GUARDED_BY(mutex_);
  uint64_t preparations_ ATOLL_GUARDED_BY(mutex_) = 0;          // numbered so far
  std::map<JobId, uint64_t> loading_ ATOLL_GUARDED_BY(mutex_);  // number of each, until it is ready or released
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_LOADED_JOBS_H_
