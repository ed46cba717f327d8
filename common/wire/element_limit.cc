// SPDX-License-Identifier: Apache-2.0
#include "common/wire/element_limit.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include "absl/strings/str_cat.h"

namespace atl {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;

constexpr int kDeepest = 32;  // messages in one another; those of atoll.v1 are less deep

class Counter {
 public:
  Counter(google::protobuf::io::ZeroCopyInputStream& bytes, const Descriptor& kind, size_t most)
      : in_(&bytes), kind_(kind), most_(most) {}
  absl::Status Count() { return CountMessage(kind_, 1); }

 private:
  absl::Status CountMessage(const Descriptor& kind, int depth) {
    if (depth > kDeepest) {
      return absl::InvalidArgumentError(absl::StrCat("the message nests deeper than ", kDeepest, " messages"));
    }
    while (const uint32_t tag = in_.ReadTag()) {
      ATOLL_RETURN_IF_ERROR(CountField(tag, kind.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag)), depth));
    }
    return in_.ConsumedEntireMessage() ? absl::OkStatus() : Broken();
  }
  absl::Status Broken() const { return NoSuchMessage(kind_); }

  absl::Status CountField(uint32_t tag, const FieldDescriptor* field, int depth) {
    if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      return CountContent(field, depth);
    }
    const bool own_place =
        field != nullptr && !field->is_repeated() &&
        WireFormatLite::WireTypeForFieldType(WireType(*field)) == WireFormatLite::GetTagWireType(tag);
    if (!own_place) ATOLL_RETURN_IF_ERROR(Take());
    uint64_t value = 0;
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_VARINT: return in_.ReadVarint64(&value) ? absl::OkStatus() : Broken();
      case WireFormatLite::WIRETYPE_FIXED64: return in_.Skip(8) ? absl::OkStatus() : Broken();
      case WireFormatLite::WIRETYPE_FIXED32: return in_.Skip(4) ? absl::OkStatus() : Broken();
      default: return Broken();
    }
  }

  // Counts the content of a field that has a length prefix.
  absl::Status CountContent(const FieldDescriptor* field, int depth) {
    int length = 0;
    if (!in_.ReadVarintSizeAsInt(&length)) return Broken();
    const bool numbers = field != nullptr && field->is_packable();
    if (!numbers) ATOLL_RETURN_IF_ERROR(Take());
    const bool message = field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!numbers && !message) return in_.Skip(length) ? absl::OkStatus() : Broken();
    const auto outer = in_.PushLimit(length);
    if (in_.BytesUntilLimit() != length) return Broken();
    ATOLL_RETURN_IF_ERROR(numbers ? CountNumbers(*field) : CountMessage(*field->message_type(), depth + 1));
    in_.PopLimit(outer);
    return absl::OkStatus();
  }

  absl::Status CountNumbers(const FieldDescriptor& field) {
    const WireFormatLite::WireType type = WireFormatLite::WireTypeForFieldType(WireType(field));
    while (in_.BytesUntilLimit() > 0) {
      ATOLL_RETURN_IF_ERROR(Take());
      uint64_t value = 0;
      const bool read = type == WireFormatLite::WIRETYPE_VARINT
                            ? in_.ReadVarint64(&value)
                            : in_.Skip(type == WireFormatLite::WIRETYPE_FIXED64 ? 8 : 4);
      if (!read) return Broken();
    }
    return absl::OkStatus();
  }

  static WireFormatLite::FieldType WireType(const FieldDescriptor& field) {
    return static_cast<WireFormatLite::FieldType>(field.type());
  }
  absl::Status Take() {
    if (++elements_ <= most_) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the message has more than ", most_,
                                                   " elements (messages, texts and numbers of lists), the limit; send "
                                                   "less at a time"));
  }

  google::protobuf::io::CodedInputStream in_;
  const Descriptor& kind_;
  const size_t most_;
  size_t elements_ = 0;
};

}  // namespace

absl::Status CheckElements(google::protobuf::io::ZeroCopyInputStream& bytes, const Descriptor& kind, size_t most) {
  return Counter(bytes, kind, most).Count();
}

absl::Status NoSuchMessage(const Descriptor& kind) {
  return absl::InvalidArgumentError(
      absl::StrCat("the bytes are no ", kind.full_name(), "; use a program of this version"));
}

absl::Status ParseWithin(const std::string& bytes, google::protobuf::Message& out) {
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  ATOLL_RETURN_IF_ERROR(CheckElements(stream, *out.GetDescriptor()));
  return out.ParseFromString(bytes) ? absl::OkStatus() : NoSuchMessage(*out.GetDescriptor());
}

}  // namespace atl
