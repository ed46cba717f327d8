// SPDX-License-Identifier: Apache-2.0
// What fuzzing tries: every parser of bytes that come from outside, one target each. A target may refuse its input, but
// never crash, hang or contradict itself; a broken law ends the process.
#ifndef ATOLL_TESTS_FUZZ_TARGETS_H_
#define ATOLL_TESTS_FUZZ_TARGETS_H_

#include <functional>
#include <string>
#include <vector>

namespace atl::fuzz {

struct Target {
  std::string name;  // [a-z_]+
  // One parser, or one family of them that the first byte chooses from. Deterministic; keeps no state.
  std::function<void(const std::string& input)> run;
  std::vector<std::string> seeds;  // what the project itself writes: where mutation begins
};

// By subject, one file each.
std::vector<Target> WireTargets();
std::vector<Target> FormatTargets();
std::vector<Target> StateTargets();
std::vector<Target> TextTargets();
std::vector<Target> RequestTargets();
std::vector<Target> GuardTargets();

// All of them, made once.
const std::vector<Target>& AllTargets();

}  // namespace atl::fuzz

#endif  // ATOLL_TESTS_FUZZ_TARGETS_H_
