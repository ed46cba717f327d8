// SPDX-License-Identifier: Apache-2.0
// A connection to the enrollment port: one HTTP/1.1 request (http1.h), one answer, then the end.
#ifndef ATOLL_COMMON_GUARD_HTTPS_EXCHANGE_H_
#define ATOLL_COMMON_GUARD_HTTPS_EXCHANGE_H_

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "common/guard/connection.h"
#include "common/guard/http1.h"

namespace atl::guard {

inline constexpr Duration kExchangeTime = Seconds(20);  // of an enrolment after its handshake; then it ends

// Answers the request. Call once, on any thread, at any time. No effect if the connection has
// ended.
using HttpReply = std::function<void(HttpResponse)>;
// Runs on the loop's thread; must not block. `address`: the caller's, "203.0.113.7".
using HttpHandler = std::function<void(HttpRequest request, const std::string& address, HttpReply reply)>;

struct ExchangeParts {
  ConnectionParts connection;
  HttpHandler handler;
  // Runs `work` for connection `id` on the loop's thread, unless the connection has ended.
  std::function<void(uint64_t id, std::function<void(Connection&)> work)> later;
  // A request is complete or refused: it counts as a call of the connection. False: the connection must end.
  std::function<bool(uint64_t id)> called;
  std::function<void(uint64_t id)> answered;  // the answer was written: the connection may be ended for a new one
};

class HttpsExchange final : public Connection {
 public:
  HttpsExchange(Accepted accepted, const ExchangeParts& parts, Instant now)
      : Connection(std::move(accepted), parts.connection, now), parts_(parts) {}
  // Sends the answer and ends the connection.
  void Answer(const HttpResponse& response);

 private:
  void Opened(Instant now) override { deadline_ = now + kExchangeTime; }
  Next MoveBytes(Instant now, std::span<uint8_t> scratch) override;

  const ExchangeParts& parts_;
  HttpRequestReader reader_;
};

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_HTTPS_EXCHANGE_H_
