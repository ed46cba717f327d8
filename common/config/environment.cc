// SPDX-License-Identifier: Apache-2.0
#include "common/config/environment.h"

#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/secret.h"

namespace atl {

void HideInEnvironment(const std::string& name) {
  const std::string begin = name + "=";
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, begin.c_str(), begin.size()) != 0) continue;
    char* value = *entry + begin.size();
    std::memset(value, 0, std::strlen(value));
  }
}

void HideInArguments(int count, char** arguments) {
  const std::string prefix = kJoinTokenPrefix;
  for (char** word = arguments; word != arguments + count; ++word) {
    char* token = std::strstr(*word, prefix.c_str());  // also in --join-token=...
    if (token != nullptr) std::memset(token + prefix.size(), 'x', std::strlen(token) - prefix.size());
  }
}

std::vector<std::string> LinesOf(const Environment& environment) {
  std::vector<std::string> lines;
  lines.reserve(environment.size());
  for (const auto& [name, value] : environment) lines.push_back(absl::StrCat(name, "=", value));
  return lines;
}

std::vector<char*> PointersTo(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace atl
