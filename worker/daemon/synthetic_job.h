// SPDX-License-Identifier: Apache-2.0
// A job's parts without training, for benchmarks of synchronisation: the job's own samples, the whole arena in host
// memory, and an inner step that takes a fixed time. Fragments, codecs, links and the coordinator are the real ones, so
// that what a run measures is theirs and not that of this machine's cores.
#ifndef ATOLL_WORKER_DAEMON_SYNTHETIC_JOB_H_
#define ATOLL_WORKER_DAEMON_SYNTHETIC_JOB_H_

#include <memory>
#include <string>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/time.h"
#include "common/rpc/bulk.h"
#include "worker/daemon/job_data.h"
#include "worker/device/device.h"
#include "worker/session/job.h"

namespace atl {

class SyntheticJobFactory final : public JobFactory {
 public:
  // A step lasts `step` from its call to its return and moves 1 / 64 of the parameters, in turn, by the learning rate
  // up or down, differently for each worker. Its loss is 0, and nothing can be evaluated. Everything given outlives the
  // factory and its jobs.
  SyntheticJobFactory(Duration step, JobDataOptions data, BulkClient& bulk, Files& files, const Clock& clock, Log& log);
  absl::StatusOr<std::unique_ptr<JobParts>> Prepare(const JobId& job, const JobSpec& spec) override;

 private:
  const Duration step_;
  const JobDataOptions data_;
  const std::shared_ptr<Device> device_;  // the CPU
  BulkClient& bulk_;
  Files& files_;
  const Clock& clock_;
  Log& log_;
};

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_SYNTHETIC_JOB_H_
