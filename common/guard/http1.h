// SPDX-License-Identifier: Apache-2.0
// Reads one HTTP/1.1 request with bounds; the enrolment port needs no more. Pure. Source: RFC 9112. Refuses
// methods other than POST, and a request without a length, with a transfer coding, or with a second length.
#ifndef ATOLL_COMMON_GUARD_HTTP1_H_
#define ATOLL_COMMON_GUARD_HTTP1_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace atl::guard {

inline constexpr size_t kHttpHeadBytes = 4 << 10;   // of an enrolment: request line and headers; else 431
inline constexpr size_t kHttpBodyBytes = 48 << 10;  // of an enrolment: a PEM chain and a request; else 413

struct HttpRequest {
  std::string method;  // "POST"
  std::string target;  // "/v1/enroll"
  std::string content_type;
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/octet-stream";
  std::string body;
};

class HttpRequestReader {
 public:
  // Reads the next bytes. Returns true when there is a result: a request, or an answer that refuses
  // it.
  bool Read(std::span<const uint8_t> bytes);
  // Exactly one is set once Read has returned true.
  const std::optional<HttpRequest>& request() const { return request_; }
  const std::optional<HttpResponse>& refusal() const { return refusal_; }

 private:
  bool Refuse(int status, std::string_view why);
  bool ReadHead(std::string_view head);
  bool ReadField(std::string_view line);

  std::string bytes_;  // of the head, then of the body
  bool head_read_ = false;
  std::optional<size_t> length_;
  HttpRequest reading_;
  std::optional<HttpRequest> request_;
  std::optional<HttpResponse> refusal_;
};

// Includes "Connection: close".
std::string WriteHttpResponse(const HttpResponse& response);

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_HTTP1_H_
