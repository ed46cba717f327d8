// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/enroll_server.h"

#include <string>
#include <utility>

#include "common/rpc/enroll_client.h"
#include "common/wire/element_limit.h"

namespace atl {
namespace {

int HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument: return 400;
    case absl::StatusCode::kUnauthenticated: return 401;
    case absl::StatusCode::kPermissionDenied: return 403;
    case absl::StatusCode::kNotFound: return 404;
    case absl::StatusCode::kResourceExhausted: return 429;
    case absl::StatusCode::kUnavailable: return 503;
    default: return 500;
  }
}

guard::HttpResponse Failure(const absl::Status& why) {
  v1::EnrollFailure failure;
  failure.set_code(static_cast<int>(why.code()));
  failure.set_message(std::string(why.message()));
  return {.status = HttpStatusOf(why.code()), .content_type = kProtobuf, .body = failure.SerializeAsString()};
}

}  // namespace

guard::HttpHandler MakeEnrollHandler(Enroller enroller) {
  return [enroller = std::move(enroller)](const guard::HttpRequest& asked, const std::string& address,
                                          guard::HttpReply reply) {
    v1::EnrollRequest request;
    if (asked.target != kEnrollTarget) {
      return reply(Failure(absl::NotFoundError("this port knows POST /v1/enroll alone")));
    }
    if (asked.content_type != kProtobuf) {
      return reply(Failure(absl::InvalidArgumentError(
          "the body is no atoll.v1.EnrollRequest; its Content-Type must be application/x-protobuf")));
    }
    if (const absl::Status read = ParseWithin(asked.body, request); !read.ok()) return reply(Failure(read));
    enroller(request, address,
             [reply = std::move(reply)](const absl::Status& status, const v1::EnrollResponse& answer) {
               if (!status.ok()) return reply(Failure(status));
               reply({.status = 200, .content_type = kProtobuf, .body = answer.SerializeAsString()});
             });
  };
}

}  // namespace atl
