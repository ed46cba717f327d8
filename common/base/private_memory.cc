// SPDX-License-Identifier: Apache-2.0
#include "common/base/private_memory.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include "common/base/check.h"

namespace atl {

void KeepMemoryPrivate() {
  // Both are needed: a dump piped to a program ignores the limit, and exec resets the dumpable
  // flag.
  rlimit limit{};
  ATOLL_CHECK(getrlimit(RLIMIT_CORE, &limit) == 0, "the limit of core dumps can be read");
  limit.rlim_cur = 0;
  ATOLL_CHECK(setrlimit(RLIMIT_CORE, &limit) == 0, "core dumps can be limited");
  ATOLL_CHECK(prctl(PR_SET_DUMPABLE, 0) == 0, "a process can be kept from being dumped");
}

}  // namespace atl
