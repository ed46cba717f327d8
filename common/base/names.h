// SPDX-License-Identifier: Apache-2.0
// Names of jobs, workers and people. Pure.
#ifndef ATOLL_COMMON_BASE_NAMES_H_
#define ATOLL_COMMON_BASE_NAMES_H_

#include "absl/strings/string_view.h"

namespace atl {

// The rule of IsName, for messages such as "--name is 'X'; it must be ...".
inline constexpr char kNameRule[] = "1 to 63 of a-z, 0-9 and -, not beginning with -";

// The rule for the names of jobs, workers and identities. A valid name is a safe file name and does
// not look like an option.
bool IsName(absl::string_view text);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_NAMES_H_
