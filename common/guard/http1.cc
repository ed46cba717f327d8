// SPDX-License-Identifier: Apache-2.0
#include "common/guard/http1.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace atl::guard {
namespace {

constexpr std::string_view kEndOfHead = "\r\n\r\n";

std::string_view ReasonOf(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 409: return "Conflict";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    default: return status < 500 ? "Refused" : "Internal Server Error";
  }
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

bool IsTarget(std::string_view text) {
  return !text.empty() && text.size() <= 256 && text[0] == '/' &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace

bool HttpRequestReader::Refuse(int status, std::string_view why) {
  refusal_ = HttpResponse{.status = status, .content_type = "text/plain", .body = absl::StrCat(std::string(why), "\n")};
  return true;
}

bool HttpRequestReader::Read(std::span<const uint8_t> bytes) {
  if (request_ || refusal_) return true;
  const size_t room = kHttpHeadBytes + kHttpBodyBytes + 1 - bytes_.size();  // one byte too many suffices to refuse
  bytes_.append(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), room));
  if (!head_read_) {
    const size_t end = bytes_.substr(0, kHttpHeadBytes).find(kEndOfHead);
    if (end == std::string::npos) {
      return bytes_.size() >= kHttpHeadBytes && Refuse(431, "the request's headers are larger than 4 KiB");
    }
    if (ReadHead(std::string_view(bytes_).substr(0, end))) return true;
    bytes_.erase(0, end + kEndOfHead.size());
    head_read_ = true;
  }
  if (bytes_.size() < *length_) return false;
  if (bytes_.size() > *length_) return Refuse(400, "more bytes than Content-Length says: one request a connection");
  reading_.body = std::exchange(bytes_, {});
  request_ = std::move(reading_);
  return true;
}

// Returns true when refused.
bool HttpRequestReader::ReadHead(std::string_view head) {
  const std::vector<std::string> lines = absl::StrSplit(absl::string_view(head.data(), head.size()), "\r\n");
  const std::vector<std::string> words = absl::StrSplit(lines[0], ' ');
  if (words.size() != 3 || !IsToken(words[0]) || !IsTarget(words[1]) || words[2] != "HTTP/1.1")
    return Refuse(400, "the first line is no HTTP/1.1 request: POST /v1/enroll HTTP/1.1");
  reading_.method = words[0];
  reading_.target = words[1];
  for (size_t i = 1; i < lines.size(); ++i) {
    if (ReadField(lines[i])) return true;
  }
  if (reading_.method != "POST") return Refuse(405, "this port takes POST only");
  if (!length_) return Refuse(411, "a request needs Content-Length");
  return false;
}

// Returns true when refused.
bool HttpRequestReader::ReadField(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !IsToken(line.substr(0, colon))) return Refuse(400, "a header without a name");
  if (std::any_of(line.begin(), line.end(), [](char c) { return (c >= 0 && c < 0x20 && c != '\t') || c == 0x7f; }))
    return Refuse(400, "a header with a control character");
  const std::string name = absl::AsciiStrToLower(absl::string_view(line.data(), colon));
  const std::string value(
      absl::StripAsciiWhitespace(absl::string_view(line.data() + colon + 1, line.size() - colon - 1)));
  if (name == "content-type") reading_.content_type = value;
  if (name == "transfer-encoding") return Refuse(501, "transfer codings are not taken: give Content-Length");
  if (name == "expect") return Refuse(417, "Expect is not taken: send the body at once");
  if (name != "content-length") return false;
  uint64_t length = 0;
  const bool digits = std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (length_ || value.empty() || !digits) return Refuse(400, "Content-Length is no number, or stands twice");
  if (!absl::SimpleAtoi(value, &length) || length > kHttpBodyBytes)
    return Refuse(413, absl::StrCat("the body is larger than ", kHttpBodyBytes, " bytes"));
  length_ = length;
  return false;
}

std::string WriteHttpResponse(const HttpResponse& response) {
  return absl::StrCat("HTTP/1.1 ", response.status, " ", std::string(ReasonOf(response.status)),
                      "\r\nContent-Type: ", response.content_type, "\r\nContent-Length: ", response.body.size(),
                      "\r\nConnection: close\r\n\r\n", response.body);
}

}  // namespace atl::guard
