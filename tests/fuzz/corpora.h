// SPDX-License-Identifier: Apache-2.0
// Inputs that fuzzing found worth keeping: tests/fuzz/corpora/TARGET.txt, one a line, in base64.
#ifndef ATOLL_TESTS_FUZZ_CORPORA_H_
#define ATOLL_TESTS_FUZZ_CORPORA_H_

#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/status.h"

namespace atl::fuzz {

// None when the target has no file. DataLoss for a line that is no base64, with its number.
absl::StatusOr<std::vector<std::string>> ReadCorpus(const Files& files, const std::string& directory,
                                                    const std::string& target);

}  // namespace atl::fuzz

#endif  // ATOLL_TESTS_FUZZ_CORPORA_H_
