// SPDX-License-Identifier: Apache-2.0
// Runs every target on its seeds, on the inputs kept by fuzzing, and on seeded mutations of both.
// scripts/fuzz runs the real fuzzer.
#include <gtest/gtest.h>

#include <algorithm>

#include "common/base/random.h"
#include "tests/fuzz/corpora.h"
#include "tests/fuzz/targets.h"

namespace atl::fuzz {
namespace {

constexpr int kChanges = 1000;  // of each target
constexpr size_t kLongest = 8192;

std::vector<std::string> Beginning(const Target& target) {
  const std::unique_ptr<Files> files = MakePosixFiles();
  std::vector<std::string> inputs = target.seeds;
  const auto kept = ReadCorpus(*files, ATOLL_FUZZ_CORPORA, target.name);
  EXPECT_TRUE(kept.ok()) << kept.status();
  if (kept.ok()) inputs.insert(inputs.end(), kept->begin(), kept->end());
  return inputs;
}

std::string Changed(std::string input, const std::string& other, Rng& rng) {
  const auto place = [&] { return input.empty() ? 0 : rng.Below(input.size()); };
  for (uint64_t changes = 1 + rng.Below(4); changes > 0; --changes) {
    switch (rng.Below(6)) {
      case 0: input.resize(place()); break;
      case 1: input.insert(place(), 1 + rng.Below(8), static_cast<char>(rng())); break;
      case 2: input.insert(place(), other.substr(other.empty() ? 0 : rng.Below(other.size()), 64)); break;
      case 3: input.erase(place(), 1 + rng.Below(16)); break;
      default:
        if (!input.empty())
          input[place()] = rng.Below(3) == 0 ? "\0\xff\x7f\x80"[rng.Below(4)] : static_cast<char>(rng());
    }
  }
  input.resize(std::min(input.size(), kLongest));
  return input;
}

class FuzzTargets : public testing::TestWithParam<std::string> {};

TEST_P(FuzzTargets, BearWhateverComes) {
  const auto& all = AllTargets();
  const auto found = std::find_if(all.begin(), all.end(), [](const Target& t) { return t.name == GetParam(); });
  const std::vector<std::string> inputs = Beginning(*found);
  ASSERT_FALSE(inputs.empty()) << "a target needs a seed or a corpus";
  found->run("");
  for (const std::string& input : inputs) found->run(input);
  Rng rng(StreamKey(1, GetParam()));
  for (int i = 0; i < kChanges; ++i) {
    found->run(Changed(inputs[rng.Below(inputs.size())], inputs[rng.Below(inputs.size())], rng));
  }
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const Target& target : AllTargets()) names.push_back(target.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, FuzzTargets, testing::ValuesIn(Names()), [](const auto& of) { return of.param; });

TEST(FuzzTargets, HaveNamesOfTheirOwn) {
  std::vector<std::string> names = Names();
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace atl::fuzz
