// SPDX-License-Identifier: Apache-2.0
#include "common/base/open_files.h"

#include <sys/resource.h>

namespace atl {

uint64_t OpenFilesLimit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? uint64_t{limit.rlim_cur} : 0;
}

uint64_t RaiseOpenFiles() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
  return OpenFilesLimit();
}

}  // namespace atl
