// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/rpc_status.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include "absl/strings/cord.h"
#include "absl/types/optional.h"
#include "common/plan/limits.h"

namespace atl {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// google.rpc's messages are few and flat, and Debian ships no headers for them. They are encoded
// and decoded by hand: Status {int32 code = 1; string message = 2; repeated Any details = 3},
// ErrorInfo {string reason = 1; string domain = 2; map<string, string> metadata = 3}, BadRequest
// {repeated FieldViolation {string field = 1; string description = 2} = 1}.
constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kBadRequestUrl[] = "type.googleapis.com/google.rpc.BadRequest";
constexpr size_t kDetails = 64;  // per repeated field; further ones are dropped

class Writer {
 public:
  void Number(uint32_t field, uint64_t value) {
    Varint(field << 3);
    Varint(value);
  }
  void Text(uint32_t field, const std::string& value) {
    Varint(field << 3 | 2);
    Varint(value.size());
    out_ += value;
  }
  std::string Take() { return std::move(out_); }

 private:
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(value | 0x80);
    out_ += static_cast<char>(value);
  }
  std::string out_;
};

// A field of a flat message. Numbers are skipped, texts are kept in order.
struct Field {
  int number = 0;
  std::string text;
};
std::vector<Field> TextFields(const std::string& bytes) {
  std::vector<Field> fields;
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  while (const uint32_t tag = in.ReadTag()) {
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&in, tag)) break;
      continue;
    }
    uint32_t size = 0;
    Field field{WireFormatLite::GetTagFieldNumber(tag), {}};
    if (!in.ReadVarint32(&size) || size > limits::kMessageBytes) break;
    if (!in.ReadString(&field.text, static_cast<int>(size))) break;
    if (fields.size() < 2 * kDetails) fields.push_back(std::move(field));
  }
  return fields;
}

std::string TextOf(const std::vector<Field>& fields, int number) {
  for (const Field& field : fields) {
    if (field.number == number) return field.text;
  }
  return {};
}

std::string Payload(const absl::Status& status, const char* url) {
  const auto payload = status.GetPayload(url);
  return payload.has_value() ? std::string(*payload) : std::string();
}

std::string CodeName(absl::StatusCode code) { return absl::StatusCodeToString(code); }

std::string Cut(std::string text) {
  if (text.size() > limits::kTextBytes) text.resize(limits::kTextBytes);
  return text;
}

}  // namespace

absl::Status WithErrorInfo(absl::Status status, const ErrorInfo& info) {
  if (status.ok()) return status;
  Writer out;
  out.Text(1, info.reason);
  out.Text(2, kErrorDomain);
  for (const auto& [key, value] : info.metadata) {
    Writer entry;
    entry.Text(1, key);
    entry.Text(2, value);
    out.Text(3, entry.Take());
  }
  status.SetPayload(kErrorInfoUrl, absl::Cord(out.Take()));
  return status;
}

std::optional<ErrorInfo> ErrorInfoOf(const absl::Status& status) {
  const std::string payload = Payload(status, kErrorInfoUrl);
  if (payload.empty()) return std::nullopt;
  const std::vector<Field> fields = TextFields(payload);
  ErrorInfo info{TextOf(fields, 1), {}};
  for (const Field& field : fields) {
    if (field.number != 3) continue;
    const std::vector<Field> entry = TextFields(field.text);
    info.metadata[TextOf(entry, 1)] = TextOf(entry, 2);
  }
  return info;
}

absl::Status WithViolations(absl::Status status, const std::vector<FieldViolation>& violations) {
  if (status.ok()) return status;
  Writer out;
  for (const FieldViolation& violation : violations) {
    Writer entry;
    entry.Text(1, violation.field);
    entry.Text(2, violation.description);
    out.Text(1, entry.Take());
  }
  status.SetPayload(kBadRequestUrl, absl::Cord(out.Take()));
  return status;
}

std::vector<FieldViolation> ViolationsOf(const absl::Status& status) {
  std::vector<FieldViolation> out;
  for (const Field& field : TextFields(Payload(status, kBadRequestUrl))) {
    if (field.number != 1) continue;
    const std::vector<Field> entry = TextFields(field.text);
    out.push_back({TextOf(entry, 1), TextOf(entry, 2)});
  }
  return out;
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const absl::Status told = ErrorInfoOf(status) ? status : WithErrorInfo(status, {CodeName(status.code()), {}});
  const std::string message = Cut(std::string(told.message()));
  Writer out;
  out.Number(1, static_cast<uint64_t>(told.code()));
  out.Text(2, message);
  told.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    Writer any;
    any.Text(1, std::string(url));
    any.Text(2, std::string(payload));
    out.Text(3, any.Take());
  });
  return grpc::Status(static_cast<grpc::StatusCode>(told.code()), message, out.Take());
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status out(static_cast<absl::StatusCode>(status.error_code()), Cut(status.error_message()));
  for (const Field& field : TextFields(status.error_details())) {
    if (field.number != 3) continue;
    const std::vector<Field> any = TextFields(field.text);
    if (!TextOf(any, 1).empty()) out.SetPayload(TextOf(any, 1), absl::Cord(TextOf(any, 2)));
  }
  return out;
}

}  // namespace atl
