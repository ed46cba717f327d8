// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <charconv>
#include <ctime>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/job/yaml_message.h"
#include "common/config/quantities.h"

namespace atl::cli {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Returns "FRAGMENT_PATTERN_" for the values of FragmentPattern: the part of the zero value's name
// before UNSPECIFIED.
std::string EnumPrefix(const EnumDescriptor& type) {
  const std::string zero = type.value(0)->name();
  const std::string tail = "UNSPECIFIED";
  const bool good = zero.size() > tail.size() && zero.compare(zero.size() - tail.size(), tail.size(), tail) == 0;
  return good ? zero.substr(0, zero.size() - tail.size()) : "";
}

bool Is(const Message& message, const google::protobuf::Descriptor* type) {
  return message.GetDescriptor()->full_name() == type->full_name();
}

// Returns seconds and nanos of a Duration or Timestamp.
std::pair<int64_t, int32_t> SecondsOf(const Message& m) {
  const auto* type = m.GetDescriptor();
  return {m.GetReflection()->GetInt64(m, type->FindFieldByName("seconds")),
          m.GetReflection()->GetInt32(m, type->FindFieldByName("nanos"))};
}

std::string TimestampText(const Message& m) {
  const auto [seconds, nanos] = SecondsOf(m);
  const std::time_t when = seconds;
  std::tm utc{};
  gmtime_r(&when, &utc);
  return absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                         utc.tm_hour, utc.tm_min, utc.tm_sec, nanos / 1'000'000);
}

// Returns the text of element `index` (-1: not repeated) of a scalar field.
std::string ScalarText(const Message& m, const FieldDescriptor& f, int index) {
  const Reflection& r = *m.GetReflection();
  const bool one = index < 0;
  switch (f.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return (one ? r.GetBool(m, &f) : r.GetRepeatedBool(m, &f, index)) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(one ? r.GetUInt32(m, &f) : r.GetRepeatedUInt32(m, &f, index));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(one ? r.GetUInt64(m, &f) : r.GetRepeatedUInt64(m, &f, index));
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(one ? r.GetInt32(m, &f) : r.GetRepeatedInt32(m, &f, index));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(one ? r.GetInt64(m, &f) : r.GetRepeatedInt64(m, &f, index));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return NumberText(one ? r.GetDouble(m, &f) : r.GetRepeatedDouble(m, &f, index));
    case FieldDescriptor::CPPTYPE_ENUM:
      return ShortEnumName(*f.enum_type(), one ? r.GetEnumValue(m, &f) : r.GetRepeatedEnumValue(m, &f, index));
    default: return YamlText(one ? r.GetString(m, &f) : r.GetRepeatedString(m, &f, index));
  }
}

// Returns the text of messages that YAML writes as one scalar; empty for all others.
std::string ScalarMessageText(const Message& m) {
  if (Is(m, google::protobuf::Duration::descriptor())) {
    const auto [seconds, nanos] = SecondsOf(m);
    return FormatDuration(Nanoseconds(seconds * 1'000'000'000 + nanos));
  }
  if (Is(m, google::protobuf::Timestamp::descriptor())) return TimestampText(m);
  return "";
}

bool IsShown(const Message& m, const FieldDescriptor& f) {
  const Reflection& r = *m.GetReflection();
  if (f.is_repeated()) return r.FieldSize(m, &f) > 0;
  if (f.has_presence()) return r.HasField(m, &f);
  if (f.type() == FieldDescriptor::TYPE_STRING) return !r.GetString(m, &f).empty();
  if (f.type() == FieldDescriptor::TYPE_ENUM) return r.GetEnumValue(m, &f) != 0;
  return true;
}

void AppendMap(const Message& m, const FieldDescriptor& f, int indent, std::string& out) {
  const Reflection& r = *m.GetReflection();
  std::map<std::string, std::string> sorted;
  for (int i = 0; i < r.FieldSize(m, &f); ++i) {
    const Message& entry = r.GetRepeatedMessage(m, &f, i);
    sorted[ScalarText(entry, *f.message_type()->map_key(), -1)] = ScalarText(entry, *f.message_type()->map_value(), -1);
  }
  for (const auto& [key, value] : sorted) {
    absl::StrAppend(&out, std::string(static_cast<size_t>(indent), ' '), key, ": ", value, "\n");
  }
}

void AppendRepeated(const Message& m, const FieldDescriptor& f, int indent, std::string& out) {
  const Reflection& r = *m.GetReflection();
  const std::string pad(static_cast<size_t>(indent), ' ');
  for (int i = 0; i < r.FieldSize(m, &f); ++i) {
    if (f.type() != FieldDescriptor::TYPE_MESSAGE) {
      absl::StrAppend(&out, pad, "- ", ScalarText(m, f, i), "\n");
      continue;
    }
    std::string item = MessageToYaml(r.GetRepeatedMessage(m, &f, i), indent + 2);
    if (item.empty()) item = pad + "  {}\n";
    item.replace(static_cast<size_t>(indent), 2, "- ");
    out += item;
  }
}

}  // namespace

namespace {

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += std::string("\\") + c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      absl::StrAppend(&out, absl::StrFormat("\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c))));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

std::string NumberText(double value) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general);
  return std::string(buffer, end);
}

std::string ShortEnumName(const EnumDescriptor& type, int number) {
  const auto* value = type.FindValueByNumber(number);
  if (value == nullptr) return absl::StrCat(number);
  return absl::AsciiStrToLower(value->name().substr(EnumPrefix(type).size()));
}

std::vector<std::string> ShortEnumNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0) names.push_back(ShortEnumName(type, type.value(i)->number()));
  }
  return names;
}

std::string YamlText(const std::string& text) {
  static constexpr char kPlain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+ ";
  const bool plain = !text.empty() && text.find_first_not_of(kPlain) == std::string::npos &&
                     absl::ascii_isalpha(static_cast<unsigned char>(text[0])) && text.back() != ' ';
  const std::string lower = absl::AsciiStrToLower(text);
  const bool reserved = lower == "true" || lower == "false" || lower == "yes" || lower == "no" || lower == "on" ||
                        lower == "off" || lower == "null" || lower == "y" || lower == "n";
  return plain && !reserved ? text : Quoted(text);
}

std::string MessageToYaml(const Message& message, int indent) {
  std::string out;
  const std::string pad(static_cast<size_t>(indent), ' ');
  const Reflection& r = *message.GetReflection();
  const auto& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& f = *type.field(i);
    if (!IsShown(message, f)) continue;
    if (f.is_map()) {
      absl::StrAppend(&out, pad, f.name(), ":\n");
      AppendMap(message, f, indent + 2, out);
    } else if (f.is_repeated()) {
      absl::StrAppend(&out, pad, f.name(), ":\n");
      AppendRepeated(message, f, indent + 2, out);
    } else if (f.type() != FieldDescriptor::TYPE_MESSAGE) {
      absl::StrAppend(&out, pad, f.name(), ": ", ScalarText(message, f, -1), "\n");
    } else if (const Message& child = r.GetMessage(message, &f); !ScalarMessageText(child).empty()) {
      absl::StrAppend(&out, pad, f.name(), ": ", ScalarMessageText(child), "\n");
    } else {
      const std::string body = MessageToYaml(child, indent + 2);
      absl::StrAppend(&out, pad, f.name(), body.empty() ? ": {}\n" : ":\n", body);
    }
  }
  return out;
}

}  // namespace atl::cli
