// SPDX-License-Identifier: Apache-2.0
// Kept inputs found by fuzzing: tests/fuzz/corpora/TARGET.txt, one per line, in base64.
#ifndef ATOLL_TESTS_FUZZ_CORPORA_H_
#define ATOLL_TESTS_FUZZ_CORPORA_H_

#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"

namespace atl::fuzz {

// Empty if the target has no file. DataLoss with the line number if a line is not base64.
absl::StatusOr<std::vector<std::string>> ReadCorpus(const Files& files, const std::string& directory,
                                                    const std::string& target);

}  // namespace atl::fuzz

#endif  // ATOLL_TESTS_FUZZ_CORPORA_H_
