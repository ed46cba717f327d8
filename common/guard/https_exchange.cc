// SPDX-License-Identifier: Apache-2.0
#include "common/guard/https_exchange.h"

#include <utility>

namespace atl::guard {
namespace {

// Removes scheme, brackets and port from "ipv4:203.0.113.7:40112" and
// "ipv6:%5B2001:db8::7%5D:40112".
std::string AddressOf(const std::string& endpoint) {
  std::string address = endpoint.substr(5, endpoint.rfind(':') - 5);
  if (address.rfind("%5B", 0) == 0) address = address.substr(3, address.size() - 6);
  return address;
}

}  // namespace

Connection::Next HttpsExchange::MoveBytes(Instant, std::span<uint8_t> scratch) {
  const Moved moved = socket().Read(scratch);
  if (moved.bytes == 0) return moved.end == Moved::End::kOpen ? Next::kWait : Next::kEnd;
  if (!reads_) return Next::kWait;  // bytes after the one request are dropped
  if (!reader_.Read(scratch.first(moved.bytes))) return Next::kAgain;
  reads_ = false;
  if (!parts_.called(id())) return Next::kEnd;
  if (reader_.refusal()) {
    Answer(*reader_.refusal());
    return Next::kAgain;
  }
  parts_.handler(
      *reader_.request(), AddressOf(peer().endpoint), [id = id(), later = parts_.later](const HttpResponse& response) {
        later(id, [response](Connection& connection) { static_cast<HttpsExchange&>(connection).Answer(response); });
      });
  return Next::kWait;
}

void HttpsExchange::Answer(const HttpResponse& response) {
  out_ = WriteHttpResponse(response);
  CloseAndLinger(Ending::kNormal, SystemClock().Now());  // current time, because the handler may have been slow
  parts_.answered(id());
}

}  // namespace atl::guard
