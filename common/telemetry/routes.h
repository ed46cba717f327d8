// SPDX-License-Identifier: Apache-2.0
// The routes of every program: /metrics, /livez (also /healthz), /readyz.
#ifndef ATOLL_COMMON_TELEMETRY_ROUTES_H_
#define ATOLL_COMMON_TELEMETRY_ROUTES_H_

#include <functional>
#include <map>
#include <string>

#include "common/base/files.h"
#include "common/base/status.h"
#include "common/telemetry/http_server.h"
#include "common/telemetry/metrics.h"

namespace atl {

struct ProbeHandlers {
  // OK gives 200 "ok"; an error gives 503 and its message.
  std::function<absl::Status()> healthy;
  std::function<absl::Status()> ready;
};
// Options of a server of these routes. The probes need no token. `token_file` (--admin-token) may be empty. Errors
// are those of the file; InvalidArgument if it does not hold a token of 16 to 4,096 printable characters without
// spaces.
absl::StatusOr<HttpServerOptions> AdminServerOptions(const Files& files, const std::string& address, uint32_t port,
                                                     const std::string& token_file);

// /metrics appends the metrics of ProcessMetricsText. `metrics` must outlive the server. `refresh` (may be empty) runs
// before each exposition, to set gauges.
std::map<std::string, HttpHandler> StandardRoutes(Metrics& metrics, ProbeHandlers probes,
                                                  std::function<void()> refresh);

}  // namespace atl

#endif  // ATOLL_COMMON_TELEMETRY_ROUTES_H_
