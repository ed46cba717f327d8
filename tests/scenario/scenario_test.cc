// SPDX-License-Identifier: Apache-2.0
// Runs every story below stories/: blocks of commands, a line of four dashes, and the expected
// trace. ATOLL_REWRITE=1 rewrites the traces; read the difference before you commit it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/scenario/story.h"

namespace atl {
namespace {

std::vector<std::string> Stories() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(ATOLL_STORIES)) {
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Scenario : public testing::TestWithParam<std::string> {};

// The story with its actual traces.
std::string Play(const std::string& text) {
  Story story;
  std::stringstream in(text);
  std::string out, trace;
  bool expecting = false;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) {
      expecting = false;
      out += "\n";
    } else if (line == "----") {
      expecting = true;
      out += line + "\n" + trace;
      trace.clear();
    } else if (!expecting) {
      out += line + "\n";
      if (line[0] == '#') continue;
      for (const std::string& effect : story.Do(line)) trace += effect + "\n";
    }
  }
  return out;
}

TEST_P(Scenario, GivesItsTrace) {
  const std::filesystem::path path = std::filesystem::path(ATOLL_STORIES) / (GetParam() + ".txt");
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ASSERT_FALSE(text.empty());
  const std::string played = Play(text);
  if (std::getenv("ATOLL_REWRITE") != nullptr) {
    std::ofstream(path) << played;
    return;
  }
  EXPECT_EQ(played, text);
  EXPECT_EQ(played.find("not understood"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Stories, Scenario, testing::ValuesIn(Stories()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace atl
