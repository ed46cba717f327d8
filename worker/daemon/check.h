// SPDX-License-Identifier: Apache-2.0
// `atoll-worker check`: tests whether this machine could join, with the options for joining.
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

// Whether a job fits into `available_bytes` and, with a GPU, into the host's memory; on each rank of an island.
Finding MemoryFinding(const JobOffer& offer, Device& device, const WorkerOptions& options, uint64_t available_bytes);

// Prints one finding per line (common/preflight): folders, device, all of CheckCoordinator, and for each offered job
// the memory it needs here. Does not join. With --identity, gets or renews the certificate like the worker
// (EnsureIdentity), and prints the file of a new one. Returns kWorkerLeft, or kWorkerPrecondition if a finding
// failed. Blocks as EnsureIdentity and CheckCoordinator.
int RunWorkerCheck(const WorkerOptions& options, const GpuPlugin& plugin, const std::string& version,
                   const Clock& clock, Log& log, std::ostream& out);

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_CHECK_H_
