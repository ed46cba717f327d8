// SPDX-License-Identifier: Apache-2.0
// Which header names and values of a call pass to gRPC, and which are refused (S33).
#include "common/guard/request_headers.h"

#include <gtest/gtest.h>

#include "tests/unit/common/guard/http2_bytes.h"

namespace atl::guard {
namespace {

RequestHeaders Headers(const Fields& fields) {
  RequestHeaders headers;
  for (const auto& [name, value] : fields) headers.Add(name, value);
  return headers;
}

Fields With(const std::string& name, const std::string& value) {
  Fields fields = CallFields();
  fields.emplace_back(name, value);
  return fields;
}

Fields Replaced(const std::string& name, const std::string& value) {
  Fields fields = CallFields();
  for (auto& field : fields) {
    if (field.first == name) field.second = value;
  }
  return fields;
}

TEST(RequestHeaders, ACallPasses) {
  const RequestHeaders headers = Headers(CallFields());
  EXPECT_TRUE(headers.Check().ok()) << headers.Check();
  EXPECT_EQ(headers.path(), "/atoll.v1.JobService/GetJob");
  EXPECT_EQ(headers.encoded(), Block(CallFields()));
}

TEST(RequestHeaders, WhatGrpcClientsSendPasses) {
  Fields fields = CallFields();
  fields.insert(fields.end(), {{"user-agent", "grpc-c++/1.51.1 grpc-c/29.0.0 (linux; chttp2)"},
                               {"grpc-timeout", "20000m"},
                               {"grpc-encoding", "identity"},
                               {"grpc-accept-encoding", "identity, deflate, gzip"}});
  const RequestHeaders headers = Headers(fields);
  EXPECT_TRUE(headers.Check().ok()) << headers.Check();
  EXPECT_EQ(headers.encoded(), Block(fields));
}

TEST(RequestHeaders, NamesThatGrpcTreatsSpeciallyAreRefused) {
  for (const char* name : {"grpclb_client_stats",
                           "grpc-status",
                           "grpc-message",
                           "grpc-previous-rpc-attempts",
                           "grpc-retry-pushback-ms",
                           "grpc-internal-encoding-request",
                           "grpc-server-stats-bin",
                           "grpc-trace-bin",
                           "grpc-tags-bin",
                           "host",
                           "lb-token",
                           "lb-cost-bin",
                           "endpoint-load-metrics-bin",
                           "x-envoy-peer-metadata",
                           "connection",
                           "upgrade",
                           "transfer-encoding",
                           "keep-alive",
                           "proxy-connection",
                           "grpc-anything-new"}) {
    for (const std::string& value :
         {std::string("x"), std::string(), std::string(4000, 'x'), std::string("\0\xff", 2)}) {
      EXPECT_EQ(Headers(With(name, value)).Check().code(), absl::StatusCode::kInvalidArgument) << name;
    }
  }
  EXPECT_FALSE(Headers(With(":status", "200")).Check().ok());
}

TEST(RequestHeaders, OtherNamesAreLeftOut) {
  for (const char* name : {"x-forwarded-for", "traceparent", "authorization", "cookie", "accept-encoding", "my-bin"}) {
    const RequestHeaders headers = Headers(With(name, "value"));
    EXPECT_TRUE(headers.Check().ok()) << name << headers.Check();
    EXPECT_EQ(headers.encoded(), Block(CallFields())) << name;
  }
}

TEST(RequestHeaders, WrongValuesAreRefused) {
  for (const auto& [name, value] : Fields{{":method", "GET"},
                                          {":scheme", "ftp"},
                                          {":path", ""},
                                          {":path", "no-slash"},
                                          {":path", "/" + std::string(300, 'a')},
                                          {":path", "/a b"},
                                          {"te", "gzip"},
                                          {"content-type", "text/html"},
                                          {":authority", std::string("a\0b", 3)}}) {
    EXPECT_EQ(Headers(Replaced(name, value)).Check().code(), absl::StatusCode::kInvalidArgument) << name << value;
  }
  for (const auto& [name, value] : Fields{{"grpc-timeout", ""},
                                          {"grpc-timeout", "S"},
                                          {"grpc-timeout", "999999999S"},
                                          {"grpc-timeout", "-1S"},
                                          {"grpc-timeout", "1x"},
                                          {"grpc-encoding", "\xff"},
                                          {"grpc-accept-encoding", std::string(65, 'a')},
                                          {"user-agent", std::string(513, 'a')},
                                          {"Upper", "x"},
                                          {"", "x"}}) {
    EXPECT_EQ(Headers(With(name, value)).Check().code(), absl::StatusCode::kInvalidArgument) << name << value;
  }
}

TEST(RequestHeaders, WhatIsMissingOrStandsTwiceIsSaid) {
  for (const auto& field : CallFields()) {
    Fields fields;
    for (const auto& other : CallFields()) {
      if (other.first != field.first) fields.push_back(other);
    }
    EXPECT_EQ(Headers(fields).Check().ok(), field.first == ":authority") << field.first;
    fields = CallFields();
    fields.insert(fields.begin(), field);
    EXPECT_FALSE(Headers(fields).Check().ok()) << field.first;
  }
  EXPECT_FALSE(Headers(With(":authority", "b")).Check().ok()) << "after a regular header";
}

TEST(RequestHeaders, MoreThanTheListMayHoldIsRefused) {
  EXPECT_TRUE(Headers(With("x", std::string(7000, 'x'))).Check().ok());
  EXPECT_EQ(Headers(With("x", std::string(8000, 'x'))).Check().code(), absl::StatusCode::kResourceExhausted);
}

TEST(HeaderDecoder, ReadsWhatItsTableHolds) {
  HeaderDecoder decoder;
  std::string first;
  for (const auto& [name, value] : CallFields()) {  // with indexing
    std::string literal;
    AppendLiteralField(name, value, literal);
    literal[0] = 0x40;
    first += literal;
  }
  ASSERT_TRUE(decoder.Decode(AsSpan(first))->Check().ok());
  const std::string indexed = "\xc3\xc2\xc1\xc0\xbf\xbe";  // the previous six, newest last
  const auto again = decoder.Decode(AsSpan(indexed));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->encoded(), Block(CallFields())) << "as literals: gRPC's own table stays empty";
}

TEST(HeaderDecoder, WhatIsNoBlockIsAnError) {
  for (const std::string& block :
       {std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), std::string("\x80"), std::string("\xbe"),
        std::string("\0\x05"
                    "ab",
                    4)}) {
    EXPECT_FALSE(HeaderDecoder().Decode(AsSpan(block)).ok());
  }
}

// One byte for each 4 KiB: 16 KiB of such bytes would expand to 64 MiB.
TEST(HeaderDecoder, ABombOfReferencesEndsTheConnection) {
  std::string block;
  AppendLiteralField("x", std::string(3900, 'x'), block);
  block[0] = 0x40;
  HeaderDecoder small;
  const auto much = small.Decode(AsSpan(block + std::string(3, '\xbe')));
  ASSERT_TRUE(much.ok()) << "an honest mistake is answered";
  EXPECT_EQ(much->Check().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LE(much->encoded().size(), kHeaderListBytes);
  HeaderDecoder large;
  const auto bomb = large.Decode(AsSpan(block + std::string(12'000, '\xbe')));
  EXPECT_EQ(bomb.status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace atl::guard
