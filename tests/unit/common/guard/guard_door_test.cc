// SPDX-License-Identifier: Apache-2.0
// The small HTTPS handler's connections (S35), here in plaintext.
#include <gtest/gtest.h>

#include <future>

#include "common/guard/guard.h"
#include "tests/unit/common/telemetry/http_client.h"

namespace atl::guard {
namespace {

// A revocation makes each loop look at its connections, also at one with further bytes whose handler
// is at work.
TEST(GuardDoor, ARequestIsHandledOnce) {
  std::promise<HttpReply> begun;
  std::atomic<int> requests = 0;
  auto door = Guard::Listen({});
  ASSERT_TRUE(door.ok()) << door.status();
  ASSERT_TRUE((*door)
                  ->Answer([&](const HttpRequest&, const std::string&, HttpReply reply) {
                    if (++requests == 1) begun.set_value(std::move(reply));
                  })
                  .ok());
  RawConnection peer((*door)->port());
  peer.Send("POST /v1/enroll HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx");
  const HttpReply reply = begun.get_future().get();
  peer.Send("POST /v1/enroll HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\ny");
  for (int look = 0; look < 3; ++look) {
    std::promise<void> looked;
    (*door)->EndConnections([&](const Peer&) { return looked.set_value(), false; });
    looked.get_future().get();
  }
  reply({.body = "once"});
  EXPECT_NE(peer.ReadAll().find("once"), std::string::npos);
  EXPECT_EQ(requests, 1);
}

}  // namespace
}  // namespace atl::guard
