// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/read_message.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/plan/limits.h"
#include "common/wire/element_limit.h"

namespace atl {
namespace {

// Checks the length of each text field of `message`. Lists and inner messages are checked where they are translated.
absl::Status CheckTexts(const google::protobuf::Message& message) {
  std::string scratch;
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const auto* const field = message.GetDescriptor()->field(i);
    if (field->is_repeated() || field->type() != google::protobuf::FieldDescriptor::TYPE_STRING) continue;
    const size_t size = message.GetReflection()->GetStringReference(message, field, &scratch).size();
    if (size <= limits::kTextBytes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(field->name(), ": has ", size, " bytes; at most ", limits::kTextBytes, " are allowed"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadMessage(grpc::ByteBuffer bytes, google::protobuf::Message& out) {
  grpc::ProtoBufferReader once(&bytes);
  if (!once.status().ok()) return NoSuchMessage(*out.GetDescriptor());
  ATOLL_RETURN_IF_ERROR(CheckElements(once, *out.GetDescriptor()));
  grpc::ProtoBufferReader again(&bytes);
  if (!out.ParseFromZeroCopyStream(&again)) return NoSuchMessage(*out.GetDescriptor());
  return CheckTexts(out);
}

}  // namespace atl
