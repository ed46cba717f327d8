// SPDX-License-Identifier: Apache-2.0
// A job without training, for benchmarks of synchronisation: the job's own samples, the whole arena
// in host memory, and inner steps of fixed duration. Fragments, codecs, links and the coordinator
// are real, so a run measures them and not this machine's cores.
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
  // A step takes `step` from call to return. It moves 1 / 64 of the parameters, in turn, up or down
  // by the learning rate, differently for each worker. The loss is 0; evaluation is not supported.
  // All arguments outlive the factory and its jobs.
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
