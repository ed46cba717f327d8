// SPDX-License-Identifier: Apache-2.0
#include "common/telemetry/http_server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <list>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/secret.h"

namespace atl {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = asio::ip::tcp;

std::chrono::nanoseconds Chrono(Duration d) { return std::chrono::nanoseconds(d.ns); }

const HttpHandler* FindRoute(const std::map<std::string, HttpHandler>& routes, const std::string& path) {
  const auto exact = routes.find(path);
  if (exact != routes.end()) return &exact->second;
  for (size_t slash = path.rfind('/'); slash != std::string::npos && slash > 0; slash = path.rfind('/', slash - 1)) {
    const auto below = routes.find(path.substr(0, slash + 1));
    if (below != routes.end()) return &below->second;
  }
  return nullptr;
}

class Connection;

struct Shared {
  HttpServerOptions options;
  std::map<std::string, HttpHandler> routes;
  size_t open = 0;                 // connections; on the server's thread only
  std::list<Connection*> reading;  // those that wait for a request, the longest first

  // Whether a request with this Authorization header is answered. Takes constant time for texts of one length.
  bool Admits(const std::string& path, const std::string& authorization) const {
    if (options.token.empty() || options.open_paths.contains(path)) return true;
    const std::string wanted = absl::StrCat("Bearer ", options.token);
    return authorization.size() == wanted.size() && DifferingBits(authorization, wanted, wanted.size()) == 0;
  }
};

// A connection: reads a header, answers, repeats. Kept alive by its pending operation.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Tcp::socket socket, Shared& shared) : stream_(std::move(socket)), shared_(shared) { ++shared_.open; }
  ~Connection() {
    StopReading();
    --shared_.open;
  }

  void Read(Duration limit) {
    parser_.emplace();
    parser_->header_limit(kAdminHeaderBytes);
    parser_->body_limit(0);
    head_ = false;
    place_ = shared_.reading.insert(shared_.reading.end(), this);
    stream_.expires_after(Chrono(limit));
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](beast::error_code error, size_t) { self->OnRead(error); });
  }

  // The pending read ends with an error, and with it this connection.
  void End() {
    StopReading();
    stream_.close();
  }

 private:
  void StopReading() {
    if (place_) shared_.reading.erase(*std::exchange(place_, std::nullopt));
  }

  void OnRead(beast::error_code error) {
    StopReading();
    if (error == http::error::header_limit)
      return Write(Plain(431, "the request header is larger than 8 KiB\n"), false);
    if (error == http::error::body_limit) return Write(Plain(413, "requests here have no body\n"), false);
    if (error && error.category() == http::make_error_code(http::error::bad_version).category() &&
        error != http::error::end_of_stream) {
      return Write(Plain(400, "this is not an HTTP request\n"), false);
    }
    if (error) return;
    const auto& request = parser_->get();
    const bool keep_alive = request.keep_alive();
    head_ = request.method() == http::verb::head;
    if (request.method() != http::verb::get && !head_) {
      HttpResponse refused = Plain(405, "only GET and HEAD are answered here\n");
      return Write(std::move(refused), keep_alive);
    }
    const std::string target(request.target().data(), request.target().size());
    const size_t question = target.find('?');
    const HttpRequest asked{target.substr(0, question),
                            question == std::string::npos ? "" : target.substr(question + 1)};
    const auto authorization = request.find(http::field::authorization);
    const std::string sent = authorization == request.end() ? "" : std::string(authorization->value());
    if (!shared_.Admits(asked.path, sent)) {
      HttpResponse refused = Plain(401, "this needs the token of --admin-token: Authorization: Bearer TOKEN\n");
      return Write(std::move(refused), keep_alive);
    }
    const HttpHandler* handler = FindRoute(shared_.routes, asked.path);
    Write(
        handler != nullptr ? (*handler)(asked) : Plain(404, "there is nothing here; try /metrics, /livez or /readyz\n"),
        keep_alive);
  }

  static HttpResponse Plain(int status, std::string body) { return {.status = status, .body = std::move(body)}; }

  void Write(HttpResponse response, bool keep_alive) {
    auto message = std::make_shared<http::response<http::string_body>>();
    message->result(static_cast<unsigned>(response.status));
    message->version(11);
    message->set(http::field::content_type, response.content_type);
    message->set("X-Content-Type-Options", "nosniff");
    message->set("Content-Security-Policy", "default-src 'self'; style-src 'self' 'unsafe-inline'");
    if (response.status == 401) message->set(http::field::www_authenticate, "Bearer");
    if (response.status == 405) message->set(http::field::allow, "GET, HEAD");
    message->keep_alive(keep_alive);
    message->body() = std::move(response.body);
    message->prepare_payload();  // sets the body's length, also for HEAD
    if (head_) message->body().clear();
    stream_.expires_after(Chrono(shared_.options.request_limit));
    auto serializer = std::make_shared<http::response_serializer<http::string_body>>(*message);
    const auto done = [self = shared_from_this(), message, serializer, keep_alive](beast::error_code error, size_t) {
      if (error || !keep_alive) {
        beast::error_code ignored;
        (void)self->stream_.socket().shutdown(Tcp::socket::shutdown_send, ignored);
        return;
      }
      self->Read(self->shared_.options.idle_limit);
    };
    if (head_) {
      http::async_write_header(stream_, *serializer, done);
    } else {
      http::async_write(stream_, *serializer, done);
    }
  }

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{kAdminHeaderBytes + 1024};
  boost::optional<http::request_parser<http::empty_body>> parser_;
  bool head_ = false;
  std::optional<std::list<Connection*>::iterator> place_;  // in shared_.reading
  Shared& shared_;
};

}  // namespace

struct HttpServer::State {
  Shared shared;
  asio::io_context context{1};
  Tcp::acceptor acceptor{context};
  asio::steady_timer pause{context};
  int port = 0;
  std::thread thread;

  void Accept() {
    acceptor.async_accept([this](beast::error_code error, Tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) return AcceptLater();  // usually no descriptor is left
      const bool is_full = shared.open >= shared.options.connections, makes_room = is_full && !shared.reading.empty();
      // A new connection matters more than the one that has waited the longest for a request.
      if (makes_room) shared.reading.front()->End();
      if (!is_full || (makes_room && shared.open < 2 * shared.options.connections)) {
        std::make_shared<Connection>(std::move(socket), shared)->Read(shared.options.request_limit);
      }
      Accept();
    });
  }
  void AcceptLater() {
    pause.expires_after(std::chrono::milliseconds(100));
    pause.async_wait([this](beast::error_code) { Accept(); });
  }
};

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

HttpServer::~HttpServer() {
  state_->context.stop();
  if (state_->thread.joinable()) state_->thread.join();
}

int HttpServer::port() const { return state_->port; }

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpServerOptions& options,
                                                              std::map<std::string, HttpHandler> routes) {
  beast::error_code error;
  const std::string host = options.address == "localhost" ? "127.0.0.1" : options.address;
  const auto address = asio::ip::make_address(host, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("--admin-address is '", options.address, "', which is no address; use one such as 127.0.0.1"));
  }
  if (!address.is_loopback() && options.token.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--admin-address is '", options.address,
                     "': others could read the names of jobs and workers; give --admin-token, or use 127.0.0.1"));
  }
  auto state = std::make_unique<State>();
  state->shared = {options, std::move(routes), 0};
  const Tcp::endpoint endpoint(address, static_cast<uint16_t>(options.port));
  (void)state->acceptor.open(endpoint.protocol(), error);
  if (!error) (void)state->acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) (void)state->acceptor.bind(endpoint, error);
  if (!error) (void)state->acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", options.address, ":", options.port,
                                               " for the admin endpoint: ", error.message(),
                                               "; choose another port with --admin-port"));
  }
  state->port = state->acceptor.local_endpoint().port();
  state->Accept();
  State* raw = state.get();
  state->thread = std::thread([raw] { raw->context.run(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

}  // namespace atl
