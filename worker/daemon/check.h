// SPDX-License-Identifier: Apache-2.0
// `atoll-worker check`: what this machine would meet if it joined, with the options that it would join with.
#ifndef ATOLL_WORKER_DAEMON_CHECK_H_
#define ATOLL_WORKER_DAEMON_CHECK_H_

#include <ostream>
#include <string>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/config/options.h"
#include "common/preflight/job_fit.h"
#include "worker/device/gpu_plugin.h"

namespace atl {

// Whether a job fits where `available_bytes` are free for training: on each rank where it would be an island's.
Finding MemoryFinding(const JobOffer& offer, Device& device, const WorkerOptions& options, uint64_t available_bytes);

// Prints one finding a line (common/preflight): folders, device, all of CheckCoordinator, and for each job the memory
// it takes here. Joins nothing; with --join-token it enrols where there is no identity yet, as the worker would, and
// says into which file. Returns kWorkerLeft, or kWorkerPrecondition when a finding has failed. Blocks as
// CheckCoordinator.
int RunWorkerCheck(const WorkerOptions& options, const GpuPlugin& plugin, const std::string& version,
                   const Clock& clock, Log& log, std::ostream& out);

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_CHECK_H_
