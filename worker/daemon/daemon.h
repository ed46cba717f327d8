// atoll-worker at work: threads around the session and the link.
//
//   train thread (the caller's)   Session::Turn: core, replicas, model; sleeps until a knock or the core's next wake
//   link thread                   NetworkLink::Turn: heartbeats on time whatever the train thread does; backoff,
//   retries transport threads             gRPC's; they queue and knock reader thread                 of each job's
//   samples signal thread                 SIGTERM and SIGINT -> Session::RequestLeave; a second one ends the process at
//   once admin thread                  /metrics, /healthz, /readyz
#ifndef ATOLL_WORKER_DAEMON_DAEMON_H_
#define ATOLL_WORKER_DAEMON_DAEMON_H_

#include <string>

#include "common/base/log.h"
#include "common/base/time.h"
#include "common/config/options.h"
#include "worker/device/gpu_plugin.h"

namespace atl {

// Blocks SIGTERM, SIGINT and SIGUSR1 in this and every later thread; call it before any thread is made.
void BlockSignals();

// Runs until the worker has left and returns its exit code (exit_codes.h), after a sentence on stderr unless it is 0.
int RunWorker(const WorkerOptions& options, const GpuPlugin& plugin, const std::string& version, const Clock& clock,
              Log& log);

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_DAEMON_H_
