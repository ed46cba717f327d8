// SPDX-License-Identifier: Apache-2.0
// What to do about what the operating system said. Pure, safe everywhere.
#ifndef ATOLL_COMMON_BASE_ADVICE_H_
#define ATOLL_COMMON_BASE_ADVICE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace atl {

// A sentence that ends in the system's words for an error ("open a.txt: No such file or directory") tells what was
// wrong and where; here what to do is added ("; check the path"). Any other sentence comes back as it is. For the last
// place before a person reads it: the programs, not the rooms.
std::string WithAdvice(absl::string_view sentence);

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_ADVICE_H_
