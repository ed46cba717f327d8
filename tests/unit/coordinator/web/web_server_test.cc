// SPDX-License-Identifier: Apache-2.0
#include "coordinator/web/web_server.h"

#include <gtest/gtest.h>

#include "tests/unit/common/telemetry/http_client.h"

namespace atl {
namespace {

TEST(WebServerTest, ServesThePageWithItsLinksAndRefreshedMetrics) {
  Metrics metrics;
  WebHandlers handlers;
  handlers.refresh = [&] { metrics.Set(Metric::kJobs, 4, {"RUNNING"}); };
  const auto server = *StartWebServer({}, metrics, std::move(handlers));
  EXPECT_NE(Get(server->port(), "/metrics").find("atoll_jobs{state=\"RUNNING\"} 4"), std::string::npos);
  const std::string page = Get(server->port(), "/");
  EXPECT_NE(page.find("text/html"), std::string::npos);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_NE(page.find("Content-Security-Policy"), std::string::npos);
  size_t links = 0;
  for (size_t at = page.find("href=\""); at != std::string::npos; at = page.find("href=\"", at + 1), ++links) {
    const std::string link = page.substr(at + 6, page.find('"', at + 6) - at - 6);
    EXPECT_EQ(Get(server->port(), link).rfind("HTTP/1.1 200", 0), 0u) << link;
  }
  EXPECT_GE(links, 3u);
}

}  // namespace
}  // namespace atl
