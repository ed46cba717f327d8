// The coordinator's admin HTTP: /metrics, /healthz, /readyz, and a read-only status as JSON under /api/v1/status with a
// plain page over it at /. What is shown comes in as functions from main; this room knows no engine state.
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
  // Sets gauges before an exposition; may be empty.
  std::function<void()> refresh;
  // One JSON document; may be empty: then /api/v1/status is 404.
  std::function<std::string()> status_json;
};

// `metrics` must outlive the server. Errors as HttpServer::Start.
absl::StatusOr<std::unique_ptr<HttpServer>> StartWebServer(const HttpServerOptions& options, Metrics& metrics,
                                                           WebHandlers handlers);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_WEB_WEB_SERVER_H_
