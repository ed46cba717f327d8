// SPDX-License-Identifier: Apache-2.0
// Bytes that strangers and members send to the ports: records of a TLS handshake, HTTP/2 in front of gRPC,
// an HTTP/1.1 request, a load balancer's header.
#include <algorithm>
#include <span>

#include "common/base/check.h"
#include "common/guard/client_hello_watch.h"
#include "common/guard/http1.h"
#include "common/guard/inbound_filter.h"
#include "common/guard/outbound_tracker.h"
#include "common/guard/proxy_protocol.h"
#include "tests/fuzz/targets.h"
#include "tests/unit/common/guard/http2_bytes.h"

namespace atl::fuzz {
namespace {

using guard::AsSpan;

struct Filtered {
  bool ok = true, admitted = false;
  std::string server, peer;
  bool operator==(const Filtered&) const = default;
};

// Filters the input in reads of `step` bytes.
Filtered Filter(const std::string& input, size_t step) {
  const guard::HttpLimits limits{.method = [](const std::string& path) {
    return guard::MethodLimits{.message_bytes = path.size() % 2 == 0 ? 17U << 16 : 64U,
                               .one_message = path.size() % 3 == 0};
  }};
  guard::InboundFilter filter(limits, [](const std::string& path, const absl::Status& refusal) {
    ATOLL_CHECK(!refusal.ok() || (!path.empty() && path[0] == '/'), "a call that passes has a path");
    return guard::CallVerdict{.status = path.size() % 5 == 0 ? absl::InternalError("no") : absl::OkStatus()};
  });
  Filtered out;
  const std::string bytes = std::string(guard::kPreface) + input;
  guard::Pieces pieces;  // made once: allocations would take most of the time
  for (size_t at = 0; out.ok && at < bytes.size(); at += step) {
    pieces.Clear();
    out.ok =
        filter.Consume(AsSpan(std::string_view(bytes).substr(at, step)), Instant{} + Seconds(1), pieces, out.peer).ok();
    out.server += pieces.Joined();
  }
  out.admitted = filter.admitted();
  ATOLL_CHECK(filter.open_streams() <= limits.streams, "open calls are bounded");
  return out;
}

// Whatever was sent, gRPC reads only whole frames, each header block in one frame.
void CheckWhatGrpcReads(const std::string& server) {
  std::string_view rest = server;
  if (rest.empty()) return;
  ATOLL_CHECK(rest.substr(0, guard::kPreface.size()) == guard::kPreface, "the preface comes first");
  rest.remove_prefix(guard::kPreface.size());
  while (rest.size() >= guard::kFrameHeaderBytes) {
    const guard::FrameHeader frame = guard::ParseFrameHeader(AsSpan(rest).data());
    ATOLL_CHECK(frame.type != guard::FrameType::kContinuation && frame.type != guard::FrameType::kPushPromise,
                "no frame that gRPC would gather");
    if (frame.type == guard::FrameType::kHeaders) {
      ATOLL_CHECK((frame.flags & guard::kEndHeaders) != 0 && frame.length <= 2 * guard::kHeaderListBytes,
                  "headers are one bounded frame");
    }
    rest.remove_prefix(std::min<size_t>(rest.size(), guard::kFrameHeaderBytes + frame.length));
  }
}

void Http2(const std::string& input) {
  const Filtered whole = Filter(input, 1 << 20);
  CheckWhatGrpcReads(whole.server);
  const Filtered pieces = Filter(input, 1 + input.size() % 7);
  ATOLL_CHECK(whole.ok == pieces.ok && whole.admitted == pieces.admitted, "where a read ends does not matter");
  if (whole.ok) ATOLL_CHECK(whole == pieces, "nor for what comes out");
}

void Outbound(const std::string& input) {
  guard::OutboundTracker tracker;
  const auto boundary = tracker.Scan(AsSpan(input), [](uint32_t) {});
  ATOLL_CHECK(!boundary || *boundary <= input.size(), "a boundary lies within");
}

void Request(const std::string& input) {
  guard::HttpRequestReader reader;
  if (!reader.Read(AsSpan(input))) return;
  ATOLL_CHECK(reader.request().has_value() != reader.refusal().has_value(), "one of the two");
  if (reader.request()) ATOLL_CHECK(reader.request()->body.size() <= guard::kHttpBodyBytes, "a body within its bound");
}

void Proxy(const std::string& input) {
  const auto header = guard::ParseProxyHeader(AsSpan(input));
  if (header.ok() && header->has_value())
    ATOLL_CHECK((*header)->bytes <= input.size() && (*header)->bytes <= guard::kProxyHeaderBytes, "a header within");
}

bool IsHandshake(const std::string& input, size_t step) {
  guard::ClientHelloWatch watch;
  for (size_t at = 0; at < input.size(); at += step) {
    if (!watch.Take(AsSpan(std::string_view(input).substr(at, step)))) return false;
  }
  return true;
}

void Hello(const std::string& input) {
  const bool taken = IsHandshake(input, 1 << 20);
  ATOLL_CHECK(taken == IsHandshake(input, 1 + input.size() % 7), "where a read ends does not matter");
  if (!taken || input.size() < 9 || input[0] != 22) return;
  const auto at = [&](size_t i) { return size_t{static_cast<uint8_t>(input[i])}; };
  ATOLL_CHECK((at(6) << 16 | at(7) << 8 | at(8)) + 4 == (at(3) << 8 | at(4)), "a record is one message");
}

}  // namespace

std::vector<Target> GuardTargets() {
  const std::string hello = guard::Frame(guard::FrameType::kSettings, 0, 0);
  const std::string block = guard::Block(guard::CallFields());
  return {
      {"guard_http2",
       Http2,
       {hello + guard::Call(1) + guard::Frame(guard::FrameType::kData, guard::kEndStream, 1, "data"),
        hello + guard::Frame(guard::FrameType::kHeaders, 0, 1, block.substr(0, 9)) +
            guard::Frame(guard::FrameType::kContinuation, guard::kEndHeaders, 1, block.substr(9)),
        hello + guard::Frame(guard::FrameType::kPing, 0, 0, "12345678") +
            guard::Frame(guard::FrameType::kSettings, guard::kAck, 0) + guard::Call(1) +
            guard::Frame(guard::FrameType::kResetStream, 0, 1, "abcd") +
            guard::Frame(guard::FrameType::kWindowUpdate, 0, 0, "abcd") +
            guard::Frame(guard::FrameType::kGoAway, 0, 0, "abcdefgh")}},
      {"guard_outbound", Outbound, {hello + guard::Call(1)}},
      {"guard_http1", Request, {"POST /v1/enroll HTTP/1.1\r\nContent-Length: 1\r\n\r\nx"}},
      {"guard_hello", Hello, {std::string("\x16\3\1\0\6\1\0\0\2ab\x14\3\3\0\1\1\x17\3\3\0\2cd", 24)}},
      {"guard_proxy",
       Proxy,
       {"PROXY TCP4 203.0.113.7 10.0.0.1 40112 7070\r\n", std::string("\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", 16) +
                                                              "\xcb"
                                                              "aaabbbbccdd"}},
  };
}

}  // namespace atl::fuzz
