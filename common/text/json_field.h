// SPDX-License-Identifier: Apache-2.0
// The text of one field of a JSON object. Inside this room only.
#ifndef ATOLL_COMMON_TEXT_JSON_FIELD_H_
#define ATOLL_COMMON_TEXT_JSON_FIELD_H_

#include <string>
#include <vector>

#include "common/base/status.h"

namespace atl {

class JsonField {
 public:
  struct Value {
    std::string text;
    bool repaired = false;  // half a surrogate pair in it became U+FFFD
  };

  // A key of the object itself; else, where `name` has dots, the path to a key of nested objects.
  explicit JsonField(std::string name);

  // `object` is valid UTF-8. InvalidArgument names the reason, and for broken JSON the column in bytes. In fields that
  // are not asked for, what Python's json module writes beyond the standard does no harm (common/base/python_json.h).
  absl::StatusOr<Value> Of(const std::string& object) const;

 private:
  std::string name_;
  std::vector<std::string> path_;  // of nested objects; one part where the name has no dot
};

}  // namespace atl

#endif  // ATOLL_COMMON_TEXT_JSON_FIELD_H_
