// SPDX-License-Identifier: Apache-2.0
#include "common/base/names.h"

namespace atl {
namespace {

constexpr size_t kLongest = 63;

}  // namespace

bool IsName(absl::string_view text) {
  return !text.empty() && text.size() <= kLongest && text.front() != '-' &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == absl::string_view::npos;
}

}  // namespace atl
