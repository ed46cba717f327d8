// SPDX-License-Identifier: Apache-2.0
#include "common/telemetry/http_server.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/telemetry/metrics.h"
#include "common/telemetry/process_metrics.h"
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

// S24: the port may be open to others.
class AdminTokenTest : public HttpServerTest {
 protected:
  absl::StatusOr<HttpServerOptions> Options(const std::string& token) {
    const std::string path = testing::TempDir() + "/admin-token-" + std::to_string(getpid());
    const std::unique_ptr<Files> files = MakePosixFiles();
    EXPECT_TRUE(WriteFileAtomically(*files, path, AsBytes(token)).ok());
    auto options = AdminServerOptions(*files, "[::]", 0, path);
    EXPECT_TRUE(files->Remove(path).ok());
    return options;
  }
};

TEST_F(AdminTokenTest, IsDemandedOfAllButTheProbes) {
  const absl::StatusOr<HttpServerOptions> options = Options("0123456789abcdef\n");
  ASSERT_TRUE(options.ok()) << options.status();
  Start(*options);
  const auto asked = [&](const std::string& path, const std::string& header) {
    return Exchange(server_->port(), "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + header + "\r\n");
  };
  for (const char* header :
       {"", "Authorization: Bearer 0123456789abcdeX\r\n", "Authorization: Bearer 0123456789abcdef0\r\n",
        "Authorization: 0123456789abcdef\r\n", "Authorization: Bearer \r\n"}) {
    for (const char* path : {"/metrics", "/echo/healthz", "/nothing"}) {
      const std::string answer = asked(path, header);
      EXPECT_EQ(answer.rfind("HTTP/1.1 401", 0), 0u) << path << header << answer;
      EXPECT_NE(answer.find("WWW-Authenticate: Bearer"), std::string::npos);
    }
  }
  EXPECT_NE(asked("/metrics", "Authorization: Bearer 0123456789abcdef\r\n").find("\nprocess_open_fds "),
            std::string::npos);
  for (const char* path : {"/livez", "/healthz", "/readyz"})
    EXPECT_EQ(asked(path, "").rfind("HTTP/1.1 200", 0), 0u) << path;
}

TEST_F(AdminTokenTest, IsRefusedWhenItCanBeGuessed) {
  for (const char* token : {"", "\n", "short", "0123456789 abcdef"})
    EXPECT_EQ(Options(token).status().code(), absl::StatusCode::kInvalidArgument) << token;
  EXPECT_EQ(AdminServerOptions(*MakePosixFiles(), "::", 0, "/nonexistent").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(ProcessMetrics, AreThoseOfThisProcess) {
  const std::string text = ProcessMetricsText();
  const auto value = [&](const std::string& name) {
    const size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  };
  EXPECT_GT(value("process_resident_memory_bytes"), 1e6);
  EXPECT_LT(value("process_resident_memory_bytes"), value("process_virtual_memory_bytes"));
  EXPECT_GE(value("process_open_fds"), 3);
  EXPECT_GE(value("process_max_fds"), value("process_open_fds"));
  EXPECT_GE(value("process_cpu_seconds_total"), 0);
  EXPECT_NEAR(value("process_start_time_seconds"), static_cast<double>(time(nullptr)), 3600);
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
