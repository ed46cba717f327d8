// SPDX-License-Identifier: Apache-2.0
#include "common/telemetry/http_server.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/telemetry/metrics.h"
#include "common/telemetry/routes.h"
#include "tests/unit/common/telemetry/http_client.h"

namespace atl {
namespace {

class HttpServerTest : public testing::Test {
 protected:
  void Start(HttpServerOptions options = {}) {
    std::map<std::string, HttpHandler> routes =
        StandardRoutes(metrics_, {[] { return absl::OkStatus(); }, [this] { return ready_; }}, nullptr);
    routes["/echo/"] = [](const HttpRequest& request) {
      return HttpResponse{.body = request.path + "?" + request.query};
    };
    absl::StatusOr<std::unique_ptr<HttpServer>> server = HttpServer::Start(options, std::move(routes));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  Metrics metrics_;
  absl::Status ready_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, ServesMetricsAndProbes) {
  Start();
  metrics_.Set(Metric::kBoot, 3);
  const std::string answer = Get(server_->port(), "/metrics");
  EXPECT_EQ(answer.rfind("HTTP/1.1 200", 0), 0u);
  EXPECT_NE(answer.find("text/plain; version=0.0.4"), std::string::npos);
  EXPECT_NE(answer.find("\natoll_boot_number 3\n"), std::string::npos) << answer;
  EXPECT_NE(Get(server_->port(), "/healthz").find("ok"), std::string::npos);
  EXPECT_EQ(Get(server_->port(), "/readyz").rfind("HTTP/1.1 200", 0), 0u);
}

TEST_F(HttpServerTest, SaysWhyItIsNotReady) {
  ready_ = absl::UnavailableError("replaying the log");
  Start();
  const std::string answer = Get(server_->port(), "/readyz");
  EXPECT_EQ(answer.rfind("HTTP/1.1 503", 0), 0u);
  EXPECT_NE(answer.find("replaying the log"), std::string::npos);
}

TEST_F(HttpServerTest, KnowsItsPathsAndMethods) {
  Start();
  EXPECT_EQ(Get(server_->port(), "/nothing").rfind("HTTP/1.1 404", 0), 0u);
  EXPECT_EQ(Get(server_->port(), "/../etc/passwd").rfind("HTTP/1.1 404", 0), 0u);
  EXPECT_NE(Get(server_->port(), "/echo/a/b?x=1").find("/echo/a/b?x=1"), std::string::npos);
  const std::string posted =
      Exchange(server_->port(), "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(posted.rfind("HTTP/1.1 405", 0), 0u) << posted;
  const std::string head = Exchange(server_->port(), "HEAD /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(head.rfind("HTTP/1.1 200", 0), 0u);
  EXPECT_NE(head.find("Content-Length: 3"), std::string::npos) << head;
  EXPECT_EQ(head.substr(head.size() - 4), "\r\n\r\n") << "no body";
}

TEST_F(HttpServerTest, RefusesLargeAndNonHttpRequests) {
  Start();
  EXPECT_EQ(Exchange(server_->port(), "GET /metrics HTTP/1.1\r\nX: " + std::string(9000, 'x') + "\r\n\r\n")
                .rfind("HTTP/1.1 431", 0),
            0u);
  EXPECT_EQ(Exchange(server_->port(), "GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde")
                .rfind("HTTP/1.1 413", 0),
            0u);
  EXPECT_EQ(Exchange(server_->port(), "hello there\r\n\r\n").rfind("HTTP/1.1 400", 0), 0u);
  EXPECT_EQ(Get(server_->port(), "/healthz").rfind("HTTP/1.1 200", 0), 0u) << "it goes on";
}

TEST_F(HttpServerTest, ARefusalAfterHeadHasItsBody) {
  Start();
  const std::string answers = Exchange(server_->port(), "HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\nhello there\r\n\r\n");
  EXPECT_NE(answers.find("HTTP/1.1 400"), std::string::npos) << answers;
  EXPECT_NE(answers.find("this is not an HTTP request"), std::string::npos) << answers;
}

TEST_F(HttpServerTest, ManyRequestsOnOneConnection) {
  Start();
  RawConnection connection(server_->port());
  for (int i = 0; i < 5; ++i) {
    connection.Send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_NE(connection.ReadUntil("ok\n").find("200 OK"), std::string::npos) << i;
  }
}

TEST_F(HttpServerTest, AFurtherConnectionTakesThePlaceOfTheOneThatWaitedLongest) {
  Start({.connections = 2});
  RawConnection first(server_->port()), second(server_->port());
  for (RawConnection* held : {&first, &second}) {
    held->Send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_NE(held->ReadUntil("ok\n").find("200 OK"), std::string::npos);
  }
  RawConnection third(server_->port());
  third.Send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(third.ReadUntil("ok\n").find("200 OK"), std::string::npos);
  EXPECT_EQ(first.ReadAll(), "") << "the first one is closed";
  second.Send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(second.ReadUntil("ok\n").find("200 OK"), std::string::npos) << "the second one is served";
}

TEST_F(HttpServerTest, ManyHalfOpenConnectionsRefuseNoProbe) {
  Start();
  std::vector<std::unique_ptr<RawConnection>> held;
  for (int i = 0; i < 200; ++i) {
    held.push_back(std::make_unique<RawConnection>(server_->port()));
    held.back()->Send("GET /he");
  }
  EXPECT_NE(Get(server_->port(), "/healthz").find("200 OK"), std::string::npos);
}

TEST_F(HttpServerTest, ASlowRequestIsCut) {
  Start({.request_limit = Milliseconds(50)});
  RawConnection slow(server_->port());
  slow.Send("GET /healthz HT");
  EXPECT_EQ(slow.ReadAll().find("200 OK"), std::string::npos);
}

TEST_F(HttpServerTest, LoopbackOnlyAndPortInUseIsReported) {
  Start();
  EXPECT_EQ(HttpServer::Start({.address = "0.0.0.0"}, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(HttpServer::Start({.address = "example.org"}, {}).status().code(), absl::StatusCode::kInvalidArgument);
  const absl::Status taken = HttpServer::Start({.port = server_->port()}, {}).status();
  EXPECT_EQ(taken.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(taken.message().find(std::to_string(server_->port())), absl::string_view::npos) << taken;
}

}  // namespace
}  // namespace atl
