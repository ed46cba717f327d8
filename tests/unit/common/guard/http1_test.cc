// SPDX-License-Identifier: Apache-2.0
// The one request that the enrolment port accepts, and all that it refuses (S35).
#include "common/guard/http1.h"

#include <gtest/gtest.h>

#include "tests/unit/common/guard/http2_bytes.h"

namespace atl::guard {
namespace {

constexpr char kGood[] =
    "POST /v1/enroll HTTP/1.1\r\nHost: c\r\nContent-Type: application/x-protobuf\r\nContent-Length: 5\r\n\r\nhello";

// The status of the refusal; 200: accepted; 0: needs more bytes.
int Outcome(std::string_view bytes, size_t step = 1 << 20) {
  HttpRequestReader reader;
  for (size_t at = 0; at < bytes.size(); at += step) {
    if (reader.Read(AsSpan(bytes.substr(at, step)))) return reader.refusal() ? reader.refusal()->status : 200;
  }
  return 0;
}

TEST(HttpRequestReader, ReadsARequestWhereverReadsEnd) {
  for (size_t step = 1; step < sizeof(kGood); ++step) {
    HttpRequestReader reader;
    const std::string_view bytes(kGood);
    bool done = false;
    for (size_t at = 0; at < bytes.size(); at += step) {
      EXPECT_FALSE(done);
      done = reader.Read(AsSpan(bytes.substr(at, step)));
    }
    ASSERT_TRUE(done && reader.request()) << step;
    EXPECT_EQ(reader.request()->target, "/v1/enroll");
    EXPECT_EQ(reader.request()->content_type, "application/x-protobuf");
    EXPECT_EQ(reader.request()->body, "hello");
  }
}

TEST(HttpRequestReader, RefusesWhatIsNoSuchRequest) {
  const std::string head = "POST /v1/enroll HTTP/1.1\r\n";
  EXPECT_EQ(Outcome("GET / HTTP/1.1\r\nHost: c\r\n\r\n"), 405);
  EXPECT_EQ(Outcome("nonsense\r\n\r\n"), 400);
  EXPECT_EQ(Outcome("POST noslash HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(Outcome("POST / HTTP/2\r\n\r\n"), 400);
  EXPECT_EQ(Outcome(head + "\r\n"), 411);
  EXPECT_EQ(Outcome(head + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nhello"), 501);
  EXPECT_EQ(Outcome(head + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"), 400);
  EXPECT_EQ(Outcome(head + "Content-Length: -5\r\n\r\n"), 400);
  EXPECT_EQ(Outcome(head + "Content-Length: 5x\r\n\r\n"), 400);
  EXPECT_EQ(Outcome(head + "Content-Length: 99999999999999999999999\r\n\r\n"), 413);
  EXPECT_EQ(Outcome(head + "Content-Length: 49153\r\n\r\n"), 413);
  EXPECT_EQ(Outcome(head + "no colon\r\n\r\n"), 400);
  EXPECT_EQ(Outcome(head + " folded: x\r\n\r\n"), 400);
  EXPECT_EQ(Outcome(head + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"), 417);
  EXPECT_EQ(Outcome(std::string(kGood) + "more"), 400);
}

TEST(HttpRequestReader, HoldsNoMoreThanItsBounds) {
  EXPECT_EQ(Outcome(std::string(4095, 'x')), 0);
  EXPECT_EQ(Outcome(std::string(4096, 'x')), 431);
  EXPECT_EQ(Outcome(std::string(1 << 20, 'x'), 17), 431);
  EXPECT_EQ(Outcome("POST /v1/enroll HTTP/1.1\r\nContent-Length: 49152\r\n\r\n" + std::string(49'152, 'x'), 100), 200);
}

TEST(HttpResponse, IsWrittenWithItsLength) {
  EXPECT_EQ(
      WriteHttpResponse({.status = 429, .content_type = "a/b", .body = "later"}),
      "HTTP/1.1 429 Too Many Requests\r\nContent-Type: a/b\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlater");
}

}  // namespace
}  // namespace atl::guard
