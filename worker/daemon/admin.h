// SPDX-License-Identifier: Apache-2.0
// The worker's admin HTTP: /metrics, /livez, /readyz.
#ifndef ATOLL_WORKER_DAEMON_ADMIN_H_
#define ATOLL_WORKER_DAEMON_ADMIN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/config/options.h"
#include "common/telemetry/http_server.h"
#include "common/telemetry/metrics.h"
#include "worker/link/network_link.h"
#include "worker/session/session.h"

namespace atl {

// Records steps in the catalogue's metrics. Owned by the train thread; `metrics` is thread-safe.
class StepMetrics {
 public:
  // Creates the counter of non-finite steps with value 0, so that monitoring sees its first increase.
  explicit StepMetrics(Metrics& metrics);
  void Record(const StepTaken& step);

 private:
  void RecordUtilization(double computed_seconds, double whole_seconds);

  Metrics& metrics_;
  uint64_t clock_step_ = 0;                          // of the newest step
  double tokens_per_second_ = 0;                     // moving mean
  double computed_seconds_ = 0, whole_seconds_ = 0;  // sums of all steps, of which older ones have less weight
};

// Sets the metrics of the link's rates; a rate that is unknown so far is left out.
void RecordLinkRates(const LinkTotals& totals, Metrics& metrics);

// Serves until destroyed. Writes {"admin": PORT} to options.ports_file, if given. Null with --no-admin. Errors
// are those of HttpServer and the file. `metrics` outlives it; `ready` is called on its thread.
absl::StatusOr<std::unique_ptr<HttpServer>> ServeAdmin(const WorkerOptions& options, Metrics& metrics, Files& files,
                                                       std::function<absl::Status()> ready);

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_ADMIN_H_
