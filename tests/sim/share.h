// SPDX-License-Identifier: Apache-2.0
// Tests that try every moment of a run try a share of the moments in tier 1 and all moments in the
// long tests.
#ifndef ATOLL_TESTS_SIM_SHARE_H_
#define ATOLL_TESTS_SIM_SHARE_H_

#include <cstdlib>

namespace atl {

// The step of a loop over moments: `every` in tier 1, 1 if ATOLL_WHOLE is set.
inline int Every(int every) { return std::getenv("ATOLL_WHOLE") == nullptr ? every : 1; }

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_SHARE_H_
