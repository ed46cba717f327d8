// SPDX-License-Identifier: Apache-2.0
// Strict JSON reading, shared by the formats of this room: duplicate keys, deep nesting, unknown
// keys and wrong types are refused, with the path of the key. Not for other rooms.
#ifndef ATOLL_COMMON_FORMAT_JSON_OBJECT_H_
#define ATOLL_COMMON_FORMAT_JSON_OBJECT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/base/status.h"

namespace atl::json {

using Value = nlohmann::json;            // for reading: members are found in logarithmic time
using Ordered = nlohmann::ordered_json;  // for writing: members stay in insertion order

// Approximate limit of the memory for a parsed text: a small element takes many times its text.
inline constexpr size_t kTreeBytes = size_t{160} << 20;

// Parses `text`. InvalidArgument: syntax (with byte and reason), a duplicate key, nesting deeper
// than `max_depth`, more than kTreeBytes. Accepts the extensions of Python's json module, but never as numbers
// (common/base/python_json.h).
absl::StatusOr<Value> Parse(const std::string& text, size_t max_depth);

// A view of one JSON object. The first fault, with the path of its key, is stored in the `status` of the constructor:
// read all fields, then check that status once. The getter of a missing or wrong value returns a zero value.
class Reader {
 public:
  Reader(const Value& object, std::string path, absl::Status& status);
  bool Has(const char* key) const;
  uint64_t Unsigned(const char* key, uint64_t max = INT64_MAX);
  double Number(const char* key);
  bool Bool(const char* key);
  std::string String(const char* key);
  Sha256 Hash(const char* key);
  Reader Object(const char* key);
  // Returns the array, which may have at most `max` elements.
  const Value& Array(const char* key, size_t max);
  // Refuses every key of the object that is not listed.
  void Only(std::initializer_list<const char*> keys);
  void Fail(const std::string& key, const std::string& what);
  bool ok() const { return status_.ok(); }

 private:
  const Value& Get(const char* key);
  const Value& object_;
  std::string path_;
  absl::Status& status_;
};

}  // namespace atl::json

#endif  // ATOLL_COMMON_FORMAT_JSON_OBJECT_H_
