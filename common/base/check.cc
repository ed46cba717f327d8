// SPDX-License-Identifier: Apache-2.0
#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace atl {

void CheckFailed(const char* file, int line, const char* expression, const char* why) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, expression, why);
  std::fflush(stderr);
  std::abort();
}

}  // namespace atl
