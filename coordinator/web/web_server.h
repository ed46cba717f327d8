// SPDX-License-Identifier: Apache-2.0
// The coordinator's admin HTTP: /metrics, /livez, /readyz, and a plain page at / with links. main
// passes the content as functions; this room knows no engine state.
#ifndef ATOLL_COORDINATOR_WEB_WEB_SERVER_H_
#define ATOLL_COORDINATOR_WEB_WEB_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/telemetry/http_server.h"
#include "common/telemetry/metrics.h"
#include "common/telemetry/routes.h"

namespace atl {

struct WebHandlers {
  ProbeHandlers probes;
  // Runs before each answer of /metrics, to update gauges; may be empty.
  std::function<void()> refresh;
};

// `metrics` must outlive the server. Errors: those of HttpServer::Start.
absl::StatusOr<std::unique_ptr<HttpServer>> StartWebServer(const HttpServerOptions& options, Metrics& metrics,
                                                           WebHandlers handlers);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_WEB_WEB_SERVER_H_
