// SPDX-License-Identifier: Apache-2.0
#include "common/format/json_object.h"

#include <algorithm>
#include <set>

#include "common/base/python_json.h"

namespace atl::json {
namespace {

// Bytes that nlohmann's tree takes for a value, and more for its content, with the allocator's share.
constexpr size_t kValueBytes = 32, kContainerBytes = 64, kStringBytes = 64, kKeyBytes = 160;

// Detects duplicate keys while parsing, because nlohmann's tree keeps only one of them, and counts memory.
class StrictSax final : public nlohmann::json_sax<Value> {
 public:
  StrictSax(Value& root, size_t max_depth) : builder_(root, false), max_depth_(max_depth) {}
  bool null() override { return Fits(kValueBytes) && builder_.null(); }
  bool boolean(bool v) override { return Fits(kValueBytes) && builder_.boolean(v); }
  bool number_integer(number_integer_t v) override { return Fits(kValueBytes) && builder_.number_integer(v); }
  bool number_unsigned(number_unsigned_t v) override { return Fits(kValueBytes) && builder_.number_unsigned(v); }
  bool number_float(number_float_t v, const string_t& s) override {
    return Fits(kValueBytes) && builder_.number_float(v, s);
  }
  bool string(string_t& v) override { return Fits(kValueBytes + kStringBytes + v.size()) && builder_.string(v); }
  bool binary(binary_t& v) override { return builder_.binary(v); }
  bool start_object(size_t n) override {
    keys_.emplace_back();
    return Deeper() && builder_.start_object(n);
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return builder_.end_object();
  }
  bool start_array(size_t n) override { return Deeper() && builder_.start_array(n); }
  bool end_array() override {
    --depth_;
    return builder_.end_array();
  }
  bool key(string_t& v) override {
    if (!Fits(kKeyBytes + 2 * v.size())) return false;
    if (!keys_.back().insert(v).second) {
      error = absl::StrCat("the key \"", v, "\" occurs twice");
      return false;
    }
    return builder_.key(v);
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& fault) override {
    error = absl::StrCat("the JSON is invalid at byte ", position, ": ", ReasonOfJsonFault(fault.what()));
    is_syntax = true;
    return false;
  }
  std::string error;
  bool is_syntax = false;

 private:
  bool Fits(size_t bytes) {
    bytes_ += bytes;
    if (bytes_ <= kTreeBytes) return true;
    error = absl::StrCat("the JSON has more elements than ", kTreeBytes >> 20, " MiB of memory hold");
    return false;
  }
  bool Deeper() {
    if (!Fits(kValueBytes + kContainerBytes)) return false;
    if (++depth_ <= max_depth_) return true;
    error = absl::StrCat("the JSON is nested deeper than ", max_depth_);
    return false;
  }
  nlohmann::detail::json_sax_dom_parser<Value> builder_;
  std::vector<std::set<std::string>> keys_;
  size_t max_depth_;
  size_t depth_ = 0, bytes_ = 0;
};

const Value& Null() {
  static const Value null;
  return null;
}

}  // namespace

absl::StatusOr<Value> Parse(const std::string& text, size_t max_depth) {
  Value root;
  StrictSax sax(root, max_depth);
  if (Value::sax_parse(text, &sax)) return root;
  if (sax.is_syntax) {  // Python's extensions are harmless in keys that are not read
    root = Value();     // frees the first tree
    StrictSax strict(root, max_depth);
    if (Value::sax_parse(StrictJsonOf(text).text, &strict)) return root;
    return absl::InvalidArgumentError(strict.error.empty() ? "the JSON is invalid" : strict.error);
  }
  return absl::InvalidArgumentError(sax.error.empty() ? "the JSON is invalid" : sax.error);
}

Reader::Reader(const Value& object, std::string path, absl::Status& status)
    : object_(object), path_(std::move(path)), status_(status) {
  if (status_.ok() && !object_.is_object()) {
    status_ =
        absl::InvalidArgumentError(absl::StrCat(path_.empty() ? "the document" : path_, " must be a JSON object"));
  }
}

void Reader::Fail(const std::string& key, const std::string& what) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(absl::StrCat(path_, path_.empty() ? "" : ".", key, " ", what));
}

bool Reader::Has(const char* key) const { return object_.is_object() && object_.contains(key); }

const Value& Reader::Get(const char* key) {
  if (!Has(key)) {
    Fail(key, "is missing");
    return Null();
  }
  return object_.find(key).value();
}

uint64_t Reader::Unsigned(const char* key, uint64_t max) {
  const Value& value = Get(key);
  if (value.is_number_unsigned() && value.get<uint64_t>() <= max) return value.get<uint64_t>();
  Fail(key, absl::StrCat("must be a whole number from 0 to ", max));
  return 0;
}

double Reader::Number(const char* key) {
  const Value& value = Get(key);
  if (value.is_number()) return value.get<double>();
  Fail(key, "must be a number");
  return 0;
}

bool Reader::Bool(const char* key) {
  const Value& value = Get(key);
  if (value.is_boolean()) return value.get<bool>();
  Fail(key, "must be true or false");
  return false;
}

std::string Reader::String(const char* key) {
  const Value& value = Get(key);
  if (value.is_string()) return value.get<std::string>();
  Fail(key, "must be a string");
  return "";
}

Sha256 Reader::Hash(const char* key) {
  Sha256 hash;
  const std::string hex = String(key);
  if (!Sha256::FromHex(hex, hash)) Fail(key, "must be 64 hexadecimal digits");
  return hash;
}

Reader Reader::Object(const char* key) {
  return Reader(Get(key), path_.empty() ? key : absl::StrCat(path_, ".", key), status_);
}

const Value& Reader::Array(const char* key, size_t max) {
  const Value& value = Get(key);
  if (value.is_array() && value.size() <= max) return value;
  Fail(key, absl::StrCat("must be an array of at most ", max, " elements"));
  return Null();
}

void Reader::Only(std::initializer_list<const char*> keys) {
  if (!object_.is_object()) return;
  for (const auto& item : object_.items()) {
    const auto same = [&](const char* key) { return item.key() == key; };
    if (std::none_of(keys.begin(), keys.end(), same)) Fail(item.key(), "is not a known key");
  }
}

}  // namespace atl::json
