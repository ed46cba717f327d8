// SPDX-License-Identifier: Apache-2.0
// The program of scripts/fuzz, around clang's libFuzzer. ATOLL_FUZZ_TARGET names the target.
// ATOLL_FUZZ_BEGIN=DIRECTORY writes seeds and kept inputs to that directory, one file each, and
// exits. ATOLL_FUZZ_LIST prints the names of all targets and exits.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "tests/fuzz/corpora.h"
#include "tests/fuzz/targets.h"

namespace atl::fuzz {
namespace {

const Target& Chosen() {
  static const Target& chosen = []() -> const Target& {
    const char* name = std::getenv("ATOLL_FUZZ_TARGET");
    for (const Target& target : AllTargets()) {
      if (name != nullptr && target.name == name) return target;
    }
    std::fprintf(stderr, "ATOLL_FUZZ_TARGET names no target; ATOLL_FUZZ_LIST=1 prints them\n");
    std::exit(2);
  }();
  return chosen;
}

void WriteBeginning(const std::string& directory) {
  const std::unique_ptr<Files> files = MakePosixFiles();
  std::vector<std::string> inputs = Chosen().seeds;
  const auto kept = ReadCorpus(*files, ATOLL_FUZZ_CORPORA, Chosen().name);
  ATOLL_CHECK(kept.ok(), "the kept inputs can be read");
  inputs.insert(inputs.end(), kept->begin(), kept->end());
  ATOLL_CHECK(files->MakeDirectory(directory).ok(), "the directory can be made");
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string path = JoinPath(directory, absl::StrCat("begin-", i));
    ATOLL_CHECK(WriteFileAtomically(*files, path, AsBytes(inputs[i])).ok(), "the directory takes it");
  }
}

}  // namespace
}  // namespace atl::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (std::getenv("ATOLL_FUZZ_LIST") != nullptr) {
    for (const atl::fuzz::Target& target : atl::fuzz::AllTargets()) std::printf("%s\n", target.name.c_str());
    std::exit(0);
  }
  if (const char* directory = std::getenv("ATOLL_FUZZ_BEGIN")) {
    atl::fuzz::WriteBeginning(directory);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  atl::fuzz::Chosen().run(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
