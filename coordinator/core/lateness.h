// SPDX-License-Identifier: Apache-2.0
// The refusal of a contribution that arrives after its round has closed, or while its job gathers
// none: the normal case for a slow worker. Its work is part of the next contribution. Pure.
#ifndef ATOLL_COORDINATOR_CORE_LATENESS_H_
#define ATOLL_COORDINATOR_CORE_LATENESS_H_

#include <string>

#include "common/base/status.h"

namespace atl {

// FailedPrecondition "late: `why`".
absl::Status LateError(const std::string& why);
bool IsLate(const absl::Status& refusal);

}  // namespace atl

#endif  // ATOLL_COORDINATOR_CORE_LATENESS_H_
