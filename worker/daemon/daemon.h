// SPDX-License-Identifier: Apache-2.0
// Runs atoll-worker: the threads around the session and the link.
//
// - train thread (the caller's): Session::Turn: core, replicas, model; sleeps until a Notify or the core's next wake
// - link thread: NetworkLink::Turn: heartbeats on time whatever the train thread does; backoff, retries. During a step:
//   Session::ListenInStep, so that transfers begin at once
// - transport threads of gRPC: queue events and notify. Sync thread: forms contributions, applies updates
// - reader thread of each job's samples, and one that prefetches their blocks. Identity thread: renews the certificate
// - signal thread: a stop signal (common/base/process.h) -> Session::RequestLeave, and the end of fetches; a second
//   urgent one ends the process
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
  bool paused = false;  // its owner requested a pause (owner_pause.h): restart the program
};

// Runs until the worker has left. Requires that the stop signals are blocked (common/base/process.h). Writes an error
// message to stderr unless the exit code is 0. Notifies `manager` when the worker begins to look for work and when a
// signal makes it leave, but sends no watchdog reports: StepWatch detects a step that hangs.
WorkerOutcome RunWorker(const WorkerOptions& options, const GpuPlugin& plugin, const std::string& version,
                        const ServiceManager& manager, const Clock& clock, Log& log);

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_DAEMON_H_
