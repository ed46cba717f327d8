// SPDX-License-Identifier: Apache-2.0
#include "common/rpc/rpc_status.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/plan/limits.h"
#include "common/wire/sendable.h"

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
constexpr size_t kDetails = 64;  // twice as many texts of a message are read; further ones are dropped

// Limit for the trailers of a status, as sent: a client of gRPC takes 8 KiB, and reports
// RESOURCE_EXHAUSTED for more, whatever the status was.
constexpr size_t kTrailerBytes = 7900;
constexpr size_t kViolationsBytes = 2400, kFieldBytes = 128, kDescriptionBytes = 512, kMetadataBytes = 256;

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
  size_t size() const { return out_.size(); }
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

// Size of the trailer grpc-message: gRPC writes some bytes as "%XX".
size_t PercentEncodedBytes(const std::string& text) {
  return text.size() + 2 * static_cast<size_t>(std::count_if(text.begin(), text.end(),
                                                             [](char c) { return c < ' ' || c > '~' || c == '%'; }));
}

// The beginning of the message that fits the trailers: it is in grpc-message, and again in
// grpc-status-details-bin (base64) with the payloads.
std::string Fitting(const absl::Status& status) {
  size_t payloads = 0;
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { payloads += url.size() + payload.size() + 16; });
  for (size_t most = limits::kTextBytes;; most = most * 3 / 4) {
    std::string text = Sendable({status.message().data(), status.message().size()}, most);
    if (PercentEncodedBytes(text) + (text.size() + payloads) * 4 / 3 <= kTrailerBytes || most < 16) return text;
  }
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
    entry.Text(2, Sendable(value, kMetadataBytes));
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
  const auto entry = [](const std::string& field, const std::string& description) {
    Writer of;
    of.Text(1, Sendable(field, kFieldBytes));
    of.Text(2, Sendable(description, kDescriptionBytes));
    return of.Take();
  };
  for (size_t i = 0; i < violations.size(); ++i) {
    const std::string next = entry(violations[i].field, violations[i].description);
    if (out.size() + next.size() > kViolationsBytes) {
      out.Text(1, entry("...", absl::StrCat("and ", violations.size() - i, " more fields")));
      break;
    }
    out.Text(1, next);
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
  const std::string message = Fitting(told);
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
  absl::Status out(static_cast<absl::StatusCode>(status.error_code()), Sendable(status.error_message()));
  for (const Field& field : TextFields(status.error_details())) {
    if (field.number != 3) continue;
    const std::vector<Field> any = TextFields(field.text);
    if (!TextOf(any, 1).empty()) out.SetPayload(TextOf(any, 1), absl::Cord(TextOf(any, 2)));
  }
  return out;
}

}  // namespace atl
