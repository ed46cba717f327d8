#include "coordinator/web/web_server.h"

#include <gtest/gtest.h>

#include "tests/unit/common/telemetry/http_client.h"

namespace atl {
namespace {

TEST(WebServerTest, ServesTheStatusThePageAndRefreshedMetrics) {
  Metrics metrics;
  WebHandlers handlers;
  handlers.refresh = [&] { metrics.Set(Metric::kJobs, 4, {"RUNNING"}); };
  handlers.status_json = [] { return std::string("{\"jobs\":4}"); };
  const auto server = *StartWebServer({}, metrics, std::move(handlers));
  EXPECT_NE(Get(server->port(), "/metrics").find("atoll_jobs{state=\"RUNNING\"} 4"), std::string::npos);
  const std::string status = Get(server->port(), "/api/v1/status");
  EXPECT_NE(status.find("application/json"), std::string::npos);
  EXPECT_NE(status.find("{\"jobs\":4}"), std::string::npos);
  const std::string page = Get(server->port(), "/");
  EXPECT_NE(page.find("text/html"), std::string::npos);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_NE(page.find("Content-Security-Policy"), std::string::npos);
}

TEST(WebServerTest, WithoutAStatusThereIsNone) {
  Metrics metrics;
  const auto server = *StartWebServer({}, metrics, {});
  EXPECT_EQ(Get(server->port(), "/api/v1/status").rfind("HTTP/1.1 404", 0), 0u);
  EXPECT_EQ(Get(server->port(), "/healthz").rfind("HTTP/1.1 200", 0), 0u);
}

}  // namespace
}  // namespace atl
