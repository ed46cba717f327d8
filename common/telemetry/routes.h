// SPDX-License-Identifier: Apache-2.0
// The routes of every program: /metrics, /healthz, /readyz.
#ifndef ATOLL_COMMON_TELEMETRY_ROUTES_H_
#define ATOLL_COMMON_TELEMETRY_ROUTES_H_

#include <functional>
#include <map>
#include <string>

#include "common/base/status.h"
#include "common/telemetry/http_server.h"
#include "common/telemetry/metrics.h"

namespace atl {

struct ProbeHandlers {
  // OK gives 200 "ok"; an error gives 503 and its message.
  std::function<absl::Status()> healthy;
  std::function<absl::Status()> ready;
};
// `metrics` must outlive the server. `refresh` (may be empty) runs before each exposition, to set gauges.
std::map<std::string, HttpHandler> StandardRoutes(Metrics& metrics, ProbeHandlers probes,
                                                  std::function<void()> refresh);

}  // namespace atl

#endif  // ATOLL_COMMON_TELEMETRY_ROUTES_H_
