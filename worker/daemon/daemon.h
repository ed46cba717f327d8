// SPDX-License-Identifier: Apache-2.0
// atoll-worker at work: threads around the session and the link.
//
// - train thread (the caller's): Session::Turn: core, replicas, model; sleeps until a knock or the core's next wake
// - link thread: NetworkLink::Turn: heartbeats on time whatever the train thread does; backoff, retries. While that one
//   takes a step: Session::ListenInStep, so that transfers begin at once
// - transport threads, gRPC's: they queue and knock
// - reader thread of each job's samples
// - signal thread: a stop signal (common/base/process.h) -> Session::RequestLeave, and the end of fetches; a second one
//   that means haste ends the process
// - admin thread: /metrics, /healthz, /readyz
#ifndef ATOLL_WORKER_DAEMON_DAEMON_H_
#define ATOLL_WORKER_DAEMON_DAEMON_H_

#include <string>

#include "common/base/log.h"
#include "common/base/service_manager.h"
#include "common/base/time.h"
#include "common/config/options.h"
#include "worker/device/gpu_plugin.h"

namespace atl {

struct WorkerOutcome {
  int exit_code = 0;    // exit_codes.h
  bool paused = false;  // it left because its owner wants a pause (owner_pause.h): start the program anew
};

// Runs until the worker has left; the stop signals are blocked (common/base/process.h). A sentence on stderr unless the
// exit code is 0. `manager` gets a report when it begins to look for work and when a signal makes it leave, never that
// it is alive: a step may take as long as it does.
WorkerOutcome RunWorker(const WorkerOptions& options, const GpuPlugin& plugin, const std::string& version,
                        const ServiceManager& manager, const Clock& clock, Log& log);

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_DAEMON_H_
