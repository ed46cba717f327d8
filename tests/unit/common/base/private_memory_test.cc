// SPDX-License-Identifier: Apache-2.0
#include "common/base/private_memory.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <cstdlib>

namespace atl {
namespace {

int Dumps() {
  rlimit limit{};
  return getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur == 0 ? prctl(PR_GET_DUMPABLE) : 2;
}

// S22. In a separate process, since a process cannot enable its core dumps again.
TEST(PrivateMemoryDeathTest, ACrashLeavesNoDump) {
  EXPECT_EXIT(std::exit(prctl(PR_GET_DUMPABLE)), testing::ExitedWithCode(1), "");
  EXPECT_EXIT(
      {
        KeepMemoryPrivate();
        std::exit(Dumps());
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace atl
