// SPDX-License-Identifier: Apache-2.0
// Fuzzing targets: one for each parser of bytes from outside. A target may refuse its input, but
// must not crash, hang or contradict itself; a broken law ends the process.
#ifndef ATOLL_TESTS_FUZZ_TARGETS_H_
#define ATOLL_TESTS_FUZZ_TARGETS_H_

#include <functional>
#include <string>
#include <vector>

namespace atl::fuzz {

struct Target {
  std::string name;  // [a-z_]+
  // One parser, or a family of parsers selected by the first byte. Deterministic; keeps no state.
  std::function<void(const std::string& input)> run;
  std::vector<std::string> seeds;  // valid inputs, as the project writes them: the start of mutation
};

// By subject, one file each.
std::vector<Target> WireTargets();
std::vector<Target> FormatTargets();
std::vector<Target> StateTargets();
std::vector<Target> TextTargets();
std::vector<Target> RequestTargets();
std::vector<Target> GuardTargets();

// All targets, built once.
const std::vector<Target>& AllTargets();

}  // namespace atl::fuzz

#endif  // ATOLL_TESTS_FUZZ_TARGETS_H_
