// SPDX-License-Identifier: Apache-2.0
#include "common/base/open_files.h"

#include <sys/resource.h>

#include <algorithm>

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

uint64_t FilesOfDownloads(uint64_t limit) {
  constexpr uint64_t kShare = 8, kLeast = 16, kMost = 4096;
  return limit == 0 ? kMost : std::clamp(limit / kShare, kLeast, kMost);
}

}  // namespace atl
