// SPDX-License-Identifier: Apache-2.0
// Which workers may download what: parameters, updates and blocks are for the members of their job. Follows the records
// of the core, so a member is let in before its assignment leaves, and after a restart before it has said anything.
// Whoever asks in no worker's name is no worker, and others decide about it (common/trust/access.h). Thread-safe.
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
  // What the ledger says at start.
  void Recover(const RecoveredState& recovered) ATOLL_EXCLUDES(mutex_);
  // Of one step, in their order; before anything of that step is told to anybody.
  void Apply(const std::vector<LedgerRecord>& records) ATOLL_EXCLUDES(mutex_);
  // Unavailable for what is of a job that the worker has no part in now, there being such a job or not: it may be about
  // to get it, or not know yet that it was taken off it, and asks again until its control stream says which.
  // PermissionDenied for what no worker ever needs: blocks of a corpus that is none of its job's, and the files that a
  // job's parameters were made of.
  absl::Status Check(const DownloadRequest& request) const ATOLL_EXCLUDES(mutex_);

 private:
  void Put(const JobRecord& record) ATOLL_REQUIRES(mutex_);
  void Put(const WorkerRecord& record) ATOLL_REQUIRES(mutex_);
  absl::Status CheckMember(const WorkerId& worker, const JobId& job) const ATOLL_EXCLUDES(mutex_);
  absl::Status CheckCorpus(const JobId& job, const Sha256& manifest) const ATOLL_EXCLUDES(mutex_);
  absl::Status CheckFile(const Sha256& file) const ATOLL_EXCLUDES(mutex_);

  mutable Mutex mutex_;
  std::map<WorkerId, JobId> job_of_ ATOLL_GUARDED_BY(mutex_);  // of those that have one
  std::map<JobId, std::set<Sha256>> manifests_ ATOLL_GUARDED_BY(mutex_);
  std::set<Sha256> initial_ ATOLL_GUARDED_BY(mutex_);  // files of parameters, of all jobs
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_ENGINE_DOWNLOAD_RIGHTS_H_
