// SPDX-License-Identifier: Apache-2.0
// Which workers may download which content: parameters, updates and blocks are for the members of
// their job. Follows the core's records: a member gets its rights before its assignment is sent,
// and after a restart before its first message. Requests without a worker's name are checked
// elsewhere (common/trust/access.h). Thread-safe.
#ifndef ATOLL_COORDINATOR_ENGINE_DOWNLOAD_RIGHTS_H_
#define ATOLL_COORDINATOR_ENGINE_DOWNLOAD_RIGHTS_H_

#include <map>
#include <set>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/plan/records.h"
#include "common/wire/transfer_messages.h"

namespace atl {

class DownloadRights {
 public:
  // Takes the ledger's state at the start.
  void Recover(const RecoveredState& recovered) ATOLL_EXCLUDES(mutex_);
  // Takes the records of one step, in step order, before any message of that step is sent.
  void Apply(const std::vector<LedgerRecord>& records) ATOLL_EXCLUDES(mutex_);
  // Unavailable for content of a job that the worker is not a member of, whether the job exists or
  // not. The worker may be about to join the job, or may not know yet that it was removed; it
  // retries until its control stream reports which. PermissionDenied for content that no worker
  // needs: blocks of a corpus that is not the job's, and the files from which a job's parameters
  // were made.
  absl::Status Check(const DownloadRequest& request) const ATOLL_EXCLUDES(mutex_);

 private:
  void Put(const JobRecord& record) ATOLL_REQUIRES(mutex_);
  void Put(const WorkerRecord& record) ATOLL_REQUIRES(mutex_);
  absl::Status CheckMember(const WorkerId& worker, const JobId& job) const ATOLL_EXCLUDES(mutex_);
  absl::Status CheckCorpus(const JobId& job, const Sha256& manifest) const ATOLL_EXCLUDES(mutex_);
  absl::Status CheckFile(const Sha256& file) const ATOLL_EXCLUDES(mutex_);

  mutable Mutex mutex_;
  std::map<WorkerId, JobId> job_of_ ATOLL_GUARDED_BY(mutex_);  // workers without a job are absent
  std::map<JobId, std::set<Sha256>> manifests_ ATOLL_GUARDED_BY(mutex_);
  std::set<Sha256> initial_ ATOLL_GUARDED_BY(mutex_);  // parameter files of all jobs
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_DOWNLOAD_RIGHTS_H_
