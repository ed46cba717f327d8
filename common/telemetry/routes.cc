// SPDX-License-Identifier: Apache-2.0
#include "common/telemetry/routes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/host_port.h"
#include "common/telemetry/process_metrics.h"

namespace atl {
namespace {

HttpHandler Probe(std::function<absl::Status()> check) {
  return [check = std::move(check)](const HttpRequest&) {
    const absl::Status status = check ? check() : absl::OkStatus();
    if (status.ok()) return HttpResponse{.body = "ok\n"};
    return HttpResponse{.status = 503, .body = absl::StrCat(std::string(status.message()), "\n")};
  };
}

constexpr uint64_t kTokenBytes = 4096;
constexpr size_t kLeastToken = 16;

}  // namespace

absl::StatusOr<HttpServerOptions> AdminServerOptions(const Files& files, const std::string& address, uint32_t port,
                                                     const std::string& token_file) {
  HttpServerOptions options{.address = WithoutBrackets(address),
                            .port = static_cast<int>(port),
                            .token = {},
                            .open_paths = {"/livez", "/healthz", "/readyz"}};
  if (token_file.empty()) return options;
  const absl::StatusOr<std::string> text = ReadWholeFile(files, token_file, kTokenBytes);
  if (!text.ok()) return Annotate(text.status(), "--admin-token");
  options.token = std::string(absl::StripAsciiWhitespace(*text));
  if (options.token.size() < kLeastToken ||
      !std::all_of(options.token.begin(), options.token.end(), absl::ascii_isgraph))
    return absl::InvalidArgumentError(
        absl::StrCat("--admin-token ", token_file, " must hold a token of at least ", kLeastToken,
                     " characters without spaces; make one: (umask 077; openssl rand -hex 32 > ", token_file, ")"));
  return options;
}

std::map<std::string, HttpHandler> StandardRoutes(Metrics& metrics, ProbeHandlers probes,
                                                  std::function<void()> refresh) {
  std::map<std::string, HttpHandler> routes;
  routes["/metrics"] = [&metrics, refresh = std::move(refresh)](const HttpRequest&) {
    if (refresh) refresh();
    return HttpResponse{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                        .body = metrics.Expose() + ProcessMetricsText()};
  };
  routes["/livez"] = routes["/healthz"] = Probe(std::move(probes.healthy));
  routes["/readyz"] = Probe(std::move(probes.ready));
  return routes;
}

}  // namespace atl
