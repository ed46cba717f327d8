// SPDX-License-Identifier: Apache-2.0
// In-memory files for targets and their seeds.
#ifndef ATOLL_TESTS_FUZZ_MEMORY_CONTENT_H_
#define ATOLL_TESTS_FUZZ_MEMORY_CONTENT_H_

#include <string>

#include "common/base/check.h"
#include "tests/sim/memory_files.h"

namespace atl::fuzz {

inline void Put(MemoryFiles& files, const std::string& path, const std::string& content) {
  const auto file = files.OpenForAppend(path);
  ATOLL_CHECK(file.ok() && (*file)->Append(AsBytes(content)).ok(), "memory takes it");
}

inline std::string Get(const MemoryFiles& files, const std::string& path) {
  const auto content = ReadWholeFile(files, path, uint64_t{1} << 24);
  ATOLL_CHECK(content.ok(), "what was written can be read");
  return *content;
}

}  // namespace atl::fuzz

#endif  // ATOLL_TESTS_FUZZ_MEMORY_CONTENT_H_
