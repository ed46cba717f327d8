// SPDX-License-Identifier: Apache-2.0
// Extracts the text of one field of a JSON object. Inside this room only.
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
    bool repaired = false;  // a lone surrogate in it became U+FFFD
  };

  // `name` is a key of the object or, if it contains dots and is no such key, a path through nested
  // objects.
  explicit JsonField(std::string name);

  // `object` must be valid UTF-8. InvalidArgument contains the reason and, for broken JSON, the
  // column in bytes. Extensions of Python's json module are accepted in other fields
  // (common/base/python_json.h).
  absl::StatusOr<Value> Of(const std::string& object) const;

 private:
  std::string name_;
  std::vector<std::string> path_;  // path through nested objects; one part for a name without dots
};

}  // namespace atl

#endif  // ATOLL_COMMON_TEXT_JSON_FIELD_H_
