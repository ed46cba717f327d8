// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/corpora.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace atl::fuzz {

absl::StatusOr<std::vector<std::string>> ReadCorpus(const Files& files, const std::string& directory,
                                                    const std::string& target) {
  constexpr uint64_t kLimitBytes = uint64_t{4} << 20;
  std::vector<std::string> inputs;
  const std::string path = JoinPath(directory, target + ".txt");
  const absl::StatusOr<std::string> text = ReadWholeFile(files, path, kLimitBytes);
  if (absl::IsNotFound(text.status())) return inputs;
  ATOLL_RETURN_IF_ERROR(text.status());
  for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    std::string input;
    if (!absl::Base64Unescape(line, &input)) {
      return absl::DataLossError(absl::StrCat(path, " line ", inputs.size() + 1, " is not base64"));
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace atl::fuzz
