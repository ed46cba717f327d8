// SPDX-License-Identifier: Apache-2.0
#include "coordinator/web/web_server.h"

#include <map>
#include <utility>

namespace atl {
namespace {

// A plain page, without scripts.
constexpr char kPage[] =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Atoll coordinator</title>"
    "<style>body{font-family:sans-serif;max-width:40em;margin:2em auto}</style><h1>Atoll coordinator</h1>"
    "<ul><li><a href=\"/metrics\">metrics</a></li>"
    "<li><a href=\"/livez\">health</a>, <a href=\"/readyz\">readiness</a></li></ul>"
    "<p>Follow a run with <code>atoll job watch NAME</code>; its state as JSON is <code>atoll job get NAME -o "
    "json</code>.</p>"
    "</html>\n";

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> StartWebServer(const HttpServerOptions& options, Metrics& metrics,
                                                           WebHandlers handlers) {
  std::map<std::string, HttpHandler> routes =
      StandardRoutes(metrics, std::move(handlers.probes), std::move(handlers.refresh));
  routes["/"] = [](const HttpRequest&) {
    return HttpResponse{.content_type = "text/html; charset=utf-8", .body = kPage};
  };
  return HttpServer::Start(options, std::move(routes));
}

}  // namespace atl
