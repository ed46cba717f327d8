// SPDX-License-Identifier: Apache-2.0
// What jobs, workers and people may be called. Pure, safe everywhere.
#ifndef ATOLL_COMMON_BASE_NAMES_H_
#define ATOLL_COMMON_BASE_NAMES_H_

#include "absl/strings/string_view.h"

namespace atl {

// The rule of IsName, for a sentence such as "--name is 'X'; it must be " and this.
inline constexpr char kNameRule[] = "1 to 63 of a-z, 0-9 and -, not beginning with -";

// The one rule for the names of jobs, workers and identities: what it takes is a safe file name and no option.
bool IsName(absl::string_view text);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_NAMES_H_
