// SPDX-License-Identifier: Apache-2.0
// For LD_PRELOAD libraries of tests that change the effect of a program's calls.
#ifndef ATOLL_TESTS_INTEGRATION_PRELOAD_H_
#define ATOLL_TESTS_INTEGRATION_PRELOAD_H_

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdlib>
#include <string>

namespace atl::preload {

// The next function of that name after this library's, callable like a function. Make it constinit:
// a static initialised at its first use makes other threads wait in system calls, perhaps in the
// very calls that the library replaces.
template <typename Function>
class Real {
 public:
  constexpr Real(Function*, const char* name) : name_(name) {}

  template <typename... Arguments>
  auto operator()(Arguments... arguments) {
    Function* function = function_.load(std::memory_order_relaxed);
    if (function == nullptr) {  // every thread finds the same
      function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
      function_.store(function, std::memory_order_relaxed);
    }
    return function(arguments...);
  }

 private:
  const char* name_;
  std::atomic<Function*> function_ = nullptr;
};

// An environment variable. If it is missing the program aborts: a test that changes nothing proves
// nothing.
inline std::string Needed(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) std::abort();
  return value;
}

// Memory shared by the test and the library: maps the file that the environment variable names.
template <typename Page>
Page& SharedPage(const char* name) {
  const int fd = open(Needed(name).c_str(), O_RDWR | O_CLOEXEC);
  void* there = fd < 0 ? MAP_FAILED : mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (there == MAP_FAILED) std::abort();
  return *static_cast<Page*>(there);
}

// The target of a symbolic link; empty if `link` is not one.
inline std::string LinkTarget(const std::string& link) {
  char target[PATH_MAX];
  const ssize_t n = readlink(link.c_str(), target, sizeof target);
  return n > 0 ? std::string(target, static_cast<size_t>(n)) : "";
}

// Absolute, symbolic links resolved; empty for a closed descriptor. An unlinked file ends in "
// (deleted)".
inline std::string PathOf(int fd) { return LinkTarget("/proc/self/fd/" + std::to_string(fd)); }

}  // namespace atl::preload

#endif  // ATOLL_TESTS_INTEGRATION_PRELOAD_H_
