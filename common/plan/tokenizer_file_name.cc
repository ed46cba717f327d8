// SPDX-License-Identifier: Apache-2.0
#include "common/plan/tokenizer_file_name.h"

#include "absl/strings/match.h"

namespace atl {

bool IsTokenizerFileName(absl::string_view name) {
  const bool plain = !name.empty() && name.size() <= 255 && name[0] != '.' && !absl::StrContains(name, '/') &&
                     !absl::StrContains(name, '\0');
  const bool reserved =
      name == "config.json" || name == "generation_config.json" || absl::StrContains(name, ".safetensors");
  return plain && !reserved;
}

}  // namespace atl
