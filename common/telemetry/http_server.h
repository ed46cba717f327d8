// SPDX-License-Identifier: Apache-2.0
// A small HTTP server for operators: GET and HEAD on fixed paths, without request bodies (otherwise 413);
// beyond loopback only with a token. Used by the coordinator (through coordinator/web) and by the worker.
#ifndef ATOLL_COMMON_TELEMETRY_HTTP_SERVER_H_
#define ATOLL_COMMON_TELEMETRY_HTTP_SERVER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "common/base/status.h"
#include "common/base/time.h"

namespace atl {

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};
struct HttpRequest {
  std::string path;   // not decoded; without query
  std::string query;  // after '?', may be empty
};
// Runs on the server's only thread; must not block for long, and must be thread-safe with respect
// to the rest of the program.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

inline constexpr size_t kAdminHeaderBytes = 8 << 10;  // of a request; else 431

struct HttpServerOptions {
  std::string address = "127.0.0.1";  // or localhost; others than loopback only with a token
  int port = 0;                       // 0: any free one
  std::string token;                  // that a request must send, "Authorization: Bearer TOKEN", else 401; empty: none
  std::set<std::string> open_paths;   // answered without the token
  size_t connections = 64;  // at a time; a further one replaces the longest idle one, or is closed if none is idle
  Duration request_limit = Seconds(10);  // for a connection's first request, and for each answer; then it is ended
  Duration idle_limit = Seconds(60);     // for each further request of a connection; then the connection is ended
};

class HttpServer {
 public:
  // `routes` by exact path; a path that ends in '/' (other than "/") also matches everything below it. The server
  // itself answers 400, 401, 404, 405, 413 and 431. Starts one thread. Unavailable, naming address and port, when it
  // cannot listen there, for example because the port is in use; InvalidArgument when `address` is no address, or is
  // not loopback and there is no token.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const HttpServerOptions& options,
                                                           std::map<std::string, HttpHandler> routes);
  ~HttpServer();  // closes connections and waits for a running handler
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  int port() const;

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_TELEMETRY_HTTP_SERVER_H_
