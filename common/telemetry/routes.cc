// SPDX-License-Identifier: Apache-2.0
#include "common/telemetry/routes.h"

#include <utility>

namespace atl {
namespace {

HttpHandler Probe(std::function<absl::Status()> check) {
  return [check = std::move(check)](const HttpRequest&) {
    const absl::Status status = check ? check() : absl::OkStatus();
    if (status.ok()) return HttpResponse{.body = "ok\n"};
    return HttpResponse{.status = 503, .body = absl::StrCat(std::string(status.message()), "\n")};
  };
}

}  // namespace

std::map<std::string, HttpHandler> StandardRoutes(Metrics& metrics, ProbeHandlers probes,
                                                  std::function<void()> refresh) {
  std::map<std::string, HttpHandler> routes;
  routes["/metrics"] = [&metrics, refresh = std::move(refresh)](const HttpRequest&) {
    if (refresh) refresh();
    return HttpResponse{.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics.Expose()};
  };
  routes["/healthz"] = Probe(std::move(probes.healthy));
  routes["/readyz"] = Probe(std::move(probes.ready));
  return routes;
}

}  // namespace atl
