// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/duration.pb.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/job/yaml_message.h"
#include "common/config/nearest_word.h"
#include "common/config/quantities.h"

namespace atl::cli {
namespace {

constexpr size_t kKeysListed = 16;
using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Aliases can make a small file expand; these limits bound the traversal.
constexpr size_t kMaxNodes = 100'000;
constexpr int kMaxDepth = 32;

// True for a quoted scalar: plain scalars have the tag "?", quoted ones "!".
bool IsQuoted(const YAML::Node& node) { return node.Tag() == "!"; }

std::string Kind(const YAML::Node& node) {
  if (node.IsMap()) return "a map";
  if (node.IsSequence()) return "a list";
  if (node.IsNull()) return "empty";
  return absl::StrCat("'", node.Scalar().substr(0, 64), "'", IsQuoted(node) ? " in quotes" : "");
}

template <typename T>
bool ParseNumber(const std::string& text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

template <typename T>
std::string IntegerRule() {
  return absl::StrCat("it must be a whole number from ", std::numeric_limits<T>::min(), " to ",
                      std::numeric_limits<T>::max());
}

bool IsDuration(const FieldDescriptor& field) {
  return field.type() == FieldDescriptor::TYPE_MESSAGE &&
         field.message_type()->full_name() == google::protobuf::Duration::descriptor()->full_name();
}

std::string Join(const std::string& path, const std::string& key) { return path.empty() ? key : path + "." + key; }

}  // namespace

std::string Fault::ToString() const {
  std::string out = where;
  if (!out.empty()) out += ": ";
  if (!path.empty()) absl::StrAppend(&out, path, " ");
  return out + problem;
}

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(type.field_count()));
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

std::string OrWhatThereIs(const std::string& key, const std::string& path, const std::vector<std::string>& known) {
  std::string hint = DidYouMean(key, known);
  const std::string section = path.empty() ? "the spec" : path;
  if (!hint.empty()) return hint;
  if (known.size() > kKeysListed) return absl::StrCat("; 'atoll job schema' lists those of ", section);
  return absl::StrCat("; ", section, " has ", absl::StrJoin(known, ", "));
}

std::string YamlReader::Where(const YAML::Node& node) const {
  if (!fixed_place_.empty()) return fixed_place_;
  const YAML::Mark mark = node.Mark();
  if (mark.is_null()) return source_;
  return absl::StrCat(source_, ":", mark.line + 1, ":", mark.column + 1);
}

void YamlReader::AddFault(const YAML::Node& node, const std::string& path, std::string problem) {
  faults_.push_back({Where(node), path, std::move(problem)});
}

bool YamlReader::Admit(const YAML::Node& node, const std::string& path) {
  if (++nodes_ == kMaxNodes)
    AddFault(node, "", absl::StrCat(path, " makes the file larger than ", kMaxNodes, " values"));
  return nodes_ < kMaxNodes;
}

std::vector<std::pair<std::string, YAML::Node>> YamlReader::Pairs(const YAML::Node& node, const std::string& path) {
  std::vector<std::pair<std::string, YAML::Node>> out;
  if (!node.IsMap()) {
    AddFault(node, path, absl::StrCat("is ", Kind(node), "; it must be a map of 'key: value' lines"));
    return out;
  }
  std::map<std::string, std::string> seen;  // yaml-cpp silently keeps the first of two equal keys
  for (const auto& pair : node) {
    if (!Admit(pair.first, path)) return out;
    if (!pair.first.IsScalar()) {
      AddFault(pair.first, path, "has a key that is not a plain string");
      continue;
    }
    const std::string key = pair.first.Scalar();
    const auto [first, fresh] = seen.emplace(key, Where(pair.first));
    if (!fresh) {
      AddFault(pair.first, Join(path, key), absl::StrCat("is given twice; the first is at ", first->second));
      continue;
    }
    positions_.emplace(Join(path, key), Where(pair.first));
    out.emplace_back(key, pair.second);
  }
  return out;
}

std::string YamlReader::Scalar(const YAML::Node& node, const std::string& path) {
  if (node.IsScalar()) return node.Scalar();
  AddFault(node, path, absl::StrCat("is ", Kind(node), "; it must be text"));
  return "";
}

void YamlReader::ReadMessage(const YAML::Node& node, const std::string& path, Message& message) {
  if (++depth_ > kMaxDepth) {
    AddFault(node, path, absl::StrCat("is nested deeper than ", kMaxDepth, " levels"));
    --depth_;
    return;
  }
  const Descriptor& type = *message.GetDescriptor();
  for (const auto& [key, value] : Pairs(node, path)) {
    const FieldDescriptor* field = type.FindFieldByName(key);
    if (field == nullptr) {
      const auto at = positions_.find(Join(path, key));
      faults_.push_back(
          {at->second, Join(path, key), "is not a known key" + OrWhatThereIs(key, path, FieldNames(type))});
      continue;
    }
    ReadField(value, Join(path, key), *field, message);
  }
  --depth_;
}

void YamlReader::ReadField(const YAML::Node& node, const std::string& path, const FieldDescriptor& field,
                           Message& message) {
  if (!Admit(node, path)) return;
  positions_.emplace(path, Where(node));
  if (node.IsNull()) {
    faults_.push_back({positions_[path], path, "has no value; give one or remove the key"});  // null has no position
  } else if (field.is_repeated()) {
    ReadRepeated(node, path, field, message);
  } else if (IsDuration(field)) {
    ReadDuration(node, path, *message.GetReflection()->MutableMessage(&message, &field));
  } else if (field.type() == FieldDescriptor::TYPE_MESSAGE) {
    ReadMessage(node, path, *message.GetReflection()->MutableMessage(&message, &field));
  } else {
    ReadScalar(node, path, field, message);
  }
}

void YamlReader::ReadRepeated(const YAML::Node& node, const std::string& path, const FieldDescriptor& field,
                              Message& message) {
  if (!node.IsSequence()) {
    AddFault(node, path, absl::StrCat("is ", Kind(node), "; it must be a list"));
    return;
  }
  const auto* reflection = message.GetReflection();
  reflection->ClearField(&message, &field);
  for (size_t i = 0; i < node.size(); ++i) {
    const std::string at = absl::StrCat(path, "[", i, "]");
    if (!Admit(node[i], at)) return;
    positions_.emplace(at, Where(node[i]));
    if (field.type() == FieldDescriptor::TYPE_MESSAGE) {
      ReadMessage(node[i], at, *reflection->AddMessage(&message, &field));
    } else {
      ReadScalar(node[i], at, field, message);
    }
  }
}

void YamlReader::ReadDuration(const YAML::Node& node, const std::string& path, Message& message) {
  const absl::StatusOr<Duration> parsed =
      node.IsScalar()
          ? ParseDuration(node.Scalar())
          : absl::InvalidArgumentError(absl::StrCat("is ", Kind(node), "; it must be a time such as 90s or 250ms"));
  if (!parsed.ok()) {
    AddFault(node, path, std::string(parsed.status().message()));
    return;
  }
  const auto* seconds = message.GetDescriptor()->FindFieldByName("seconds");
  const auto* nanos = message.GetDescriptor()->FindFieldByName("nanos");
  message.GetReflection()->SetInt64(&message, seconds, parsed->ns / 1'000'000'000);
  message.GetReflection()->SetInt32(&message, nanos, static_cast<int32_t>(parsed->ns % 1'000'000'000));
}

namespace {

// Writes one scalar of any type; appends to a repeated field.
class ScalarWriter {
 public:
  ScalarWriter(Message& message, const FieldDescriptor& field)
      : message_(message), field_(field), reflection_(*message.GetReflection()), add_(field.is_repeated()) {}

  void Put(bool v) const {
    add_ ? reflection_.AddBool(&message_, &field_, v) : reflection_.SetBool(&message_, &field_, v);
  }
  void Put(uint32_t v) const {
    add_ ? reflection_.AddUInt32(&message_, &field_, v) : reflection_.SetUInt32(&message_, &field_, v);
  }
  void Put(uint64_t v) const {
    add_ ? reflection_.AddUInt64(&message_, &field_, v) : reflection_.SetUInt64(&message_, &field_, v);
  }
  void Put(int32_t v) const {
    add_ ? reflection_.AddInt32(&message_, &field_, v) : reflection_.SetInt32(&message_, &field_, v);
  }
  void Put(int64_t v) const {
    add_ ? reflection_.AddInt64(&message_, &field_, v) : reflection_.SetInt64(&message_, &field_, v);
  }
  void Put(double v) const {
    add_ ? reflection_.AddDouble(&message_, &field_, v) : reflection_.SetDouble(&message_, &field_, v);
  }
  void Put(const std::string& v) const {
    add_ ? reflection_.AddString(&message_, &field_, v) : reflection_.SetString(&message_, &field_, v);
  }
  void PutEnum(int v) const {
    add_ ? reflection_.AddEnumValue(&message_, &field_, v) : reflection_.SetEnumValue(&message_, &field_, v);
  }

 private:
  Message& message_;
  const FieldDescriptor& field_;
  const google::protobuf::Reflection& reflection_;
  bool add_;
};

// Returns an empty string if `text` was written, otherwise the violated rule.
template <typename T>
std::string PutInteger(const std::string& text, const ScalarWriter& out) {
  T value{};
  if (!ParseNumber(text, value)) return IntegerRule<T>();
  out.Put(value);
  return "";
}

std::string PutReal(const std::string& text, const ScalarWriter& out) {
  double value = 0;
  if (!ParseNumber(text, value) || !std::isfinite(value)) return "it must be a number";
  out.Put(value);
  return "";
}

std::string PutBool(const std::string& text, const ScalarWriter& out) {
  if (text != "true" && text != "false") return "it must be true or false";
  out.Put(text == "true");
  return "";
}

std::string PutEnum(const std::string& text, const EnumDescriptor& type, const ScalarWriter& out) {
  for (int i = 0; i < type.value_count(); ++i) {
    const int number = type.value(i)->number();
    if (number != 0 && ShortEnumName(type, number) == text) {
      out.PutEnum(number);
      return "";
    }
  }
  const std::vector<std::string> known = ShortEnumNames(type);
  return absl::StrCat("it must be one of ", absl::StrJoin(known, ", "), DidYouMean(text, known));
}

}  // namespace

void YamlReader::ReadScalar(const YAML::Node& node, const std::string& path, const FieldDescriptor& field,
                            Message& message) {
  if (field.type() == FieldDescriptor::TYPE_STRING) {
    const std::string text = Scalar(node, path);
    ScalarWriter(message, field).Put(text);
    return;
  }
  const ScalarWriter out(message, field);
  // Quoted text is text: numbers and switches must be unquoted. Enum values may be quoted.
  const bool usable = node.IsScalar() && (!IsQuoted(node) || field.type() == FieldDescriptor::TYPE_ENUM);
  const std::string text = usable ? node.Scalar() : "";
  std::string rule;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL: rule = PutBool(text, out); break;
    case FieldDescriptor::CPPTYPE_UINT32: rule = PutInteger<uint32_t>(text, out); break;
    case FieldDescriptor::CPPTYPE_UINT64: rule = PutInteger<uint64_t>(text, out); break;
    case FieldDescriptor::CPPTYPE_INT32: rule = PutInteger<int32_t>(text, out); break;
    case FieldDescriptor::CPPTYPE_INT64: rule = PutInteger<int64_t>(text, out); break;
    case FieldDescriptor::CPPTYPE_DOUBLE: rule = PutReal(text, out); break;
    case FieldDescriptor::CPPTYPE_ENUM: rule = PutEnum(text, *field.enum_type(), out); break;
    default: rule = "its type cannot be written in a job file";
  }
  if (!rule.empty()) AddFault(node, path, absl::StrCat("is ", Kind(node), "; ", rule));
}

}  // namespace atl::cli
