// SPDX-License-Identifier: Apache-2.0
// The jobs with their parameters in memory, and the jobs being loaded. Thread-safe.
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
  // Null if the job is not in memory.
  std::shared_ptr<JobData> Find(const JobId& job) const ATOLL_EXCLUDES(mutex_);
  // For a job that Find does not return: Unavailable while it is being loaded, else `otherwise`.
  absl::Status WhyNotLoaded(const JobId& job, absl::Status otherwise) const ATOLL_EXCLUDES(mutex_);

  // Marks the job as being loaded. Returns the number of the preparation; an earlier preparation is
  // no longer expected.
  uint64_t Expect(const JobId& job) ATOLL_EXCLUDES(mutex_);
  // False: this preparation is over, or since it began the job was released or another preparation began.
  bool IsExpected(const JobId& job, uint64_t number) const ATOLL_EXCLUDES(mutex_);
  // Stores the data of the preparation with that number. Returns false and changes nothing if it is not expected.
  bool Put(std::shared_ptr<JobData> data, uint64_t number) ATOLL_EXCLUDES(mutex_);
  // The job is now neither loaded nor expected. Returns its data, or null.
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
  uint64_t preparations_ ATOLL_GUARDED_BY(mutex_) = 0;          // the last number given
  std::map<JobId, uint64_t> loading_ ATOLL_GUARDED_BY(mutex_);  // number of each preparation, until ready or released
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_LOADED_JOBS_H_
