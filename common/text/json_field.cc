// SPDX-License-Identifier: Apache-2.0
#include "common/text/json_field.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/python_json.h"

namespace atl {
namespace {

using Json = nlohmann::json;

constexpr size_t kShownKeys = 8, kShownKeyBytes = 40;
constexpr char kReplacement[] = "\xef\xbf\xbd";

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }

std::vector<std::string> Split(const std::string& name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

// Builds the tree, and counts the occurrences of the requested keys, because the tree keeps only
// the last one.
class Parser {
 public:
  Parser(const std::string& name, const std::vector<std::string>& path) : name_(name), path_(path) {}

  // Returns a discarded value when `text` is not JSON; `fault` then contains the reason.
  Json Parse(const std::string& text, std::string& fault) {
    literal_ = nested_ = 0;
    const auto look = [this](int depth, Json::parse_event_t event, const Json& key) {
      if (event == Json::parse_event_t::key) See(static_cast<size_t>(depth), key.get_ref<const std::string&>());
      return true;
    };
    try {
      return Json::parse(text, look);
    } catch (const Json::parse_error& error) {
      fault = absl::StrCat("is not valid JSON at column ", error.byte, ": ", ReasonOfJsonFault(error.what()));
    } catch (const Json::exception& error) {
      fault = absl::StrCat("is not valid JSON: ", ReasonOfJsonFault(error.what()));
    }
    return Json(Json::value_t::discarded);
  }
  uint32_t literal() const { return literal_; }
  uint32_t nested() const { return nested_; }

 private:
  void See(size_t depth, const std::string& key) {
    if (depth == 1 && key == name_) ++literal_;
    if (path_.size() == 1 || depth > path_.size()) return;
    matched_.resize(depth, false);
    matched_[depth - 1] = key == path_[depth - 1] && (depth == 1 || matched_[depth - 2]);
    if (depth == path_.size() && matched_.back()) ++nested_;
  }
  const std::string& name_;
  const std::vector<std::string>& path_;
  std::vector<bool> matched_;  // by depth: whether the newest key equals that of the path
  uint32_t literal_ = 0, nested_ = 0;
};

std::string KeysOf(const Json& object) {
  std::string out;
  size_t shown = 0;
  for (const auto& item : object.items()) {
    if (shown++ == kShownKeys) return out + ", ...";
    const std::string key =
        Json(item.key().substr(0, kShownKeyBytes)).dump(-1, ' ', false, Json::error_handler_t::replace);
    absl::StrAppend(&out, out.empty() ? "" : ", ", key);
  }
  return out.empty() ? "none" : out;
}

}  // namespace

JsonField::JsonField(std::string name) : name_(std::move(name)), path_(Split(name_)) {}

absl::StatusOr<JsonField::Value> JsonField::Of(const std::string& object) const {
  const size_t zero = object.find('\0');
  if (zero != std::string::npos) return Bad(absl::StrCat("is not valid JSON at column ", zero + 1, ": a zero byte"));
  if (const size_t deep = ColumnNestedDeeper(object, kJsonLevels); deep > 0)
    return Bad(absl::StrCat("is nested deeper than ", kJsonLevels, " levels at column ", deep));
  Parser parser(name_, path_);
  std::string fault;
  Json root = parser.Parse(object, fault);
  bool lone_surrogates = false;
  if (root.is_discarded()) {
    const StrictJson strict = StrictJsonOf(object);
    lone_surrogates = strict.lone_surrogates;
    root = parser.Parse(strict.text, fault);
    if (root.is_discarded()) return Bad(fault);
  }
  if (!root.is_object()) return Bad("is not a JSON object");
  const Json* field = &root;
  if (parser.literal() > 0) {
    field = &*root.find(name_);
  } else {
    for (const std::string& part : path_) {
      const auto found = field->is_object() ? field->find(part) : field->end();
      if (!field->is_object() || found == field->end()) {
        return Bad(absl::StrCat("has no field \"", name_, "\"; it has ", KeysOf(root),
                                ". Name the field that contains the text with --field (a.b for one in an object)"));
      }
      field = &*found;
    }
  }
  const uint32_t times = parser.literal() > 0 ? parser.literal() : parser.nested();
  if (times > 1) return Bad(absl::StrCat("has field \"", name_, "\" ", times, " times; once is enough"));
  if (!field->is_string()) return Bad(absl::StrCat("field \"", name_, "\" is not a string"));
  Value value{field->get<std::string>()};
  value.repaired = lone_surrogates && value.text.find(kReplacement) != std::string::npos;
  return value;
}

}  // namespace atl
