// SPDX-License-Identifier: Apache-2.0
// For libraries that a test loads before a program, to change what its calls do.
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

// The function of that name behind this library's, called like a function. One is made constinit: a static that were
// made at its first use would be waited for by other threads with calls of the system, which may be the very ones that
// the library replaces.
template <typename Function>
class Real {
 public:
  constexpr Real(Function*, const char* name) : name_(name) {}

  template <typename... Arguments>
  auto operator()(Arguments... arguments) {
    Function* function = function_.load(std::memory_order_relaxed);
    if (function == nullptr) {  // each thread finds the same
      function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
      function_.store(function, std::memory_order_relaxed);
    }
    return function(arguments...);
  }

 private:
  const char* name_;
  std::atomic<Function*> function_ = nullptr;
};

// Of the environment. Without it the program ends: a test that changes nothing shows nothing.
inline std::string Needed(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) std::abort();
  return value;
}

// What a test and the library tell each other: the file that the environment names, mapped for both.
template <typename Page>
Page& SharedPage(const char* name) {
  const int fd = open(Needed(name).c_str(), O_RDWR | O_CLOEXEC);
  void* there = fd < 0 ? MAP_FAILED : mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (there == MAP_FAILED) std::abort();
  return *static_cast<Page*>(there);
}

// Where a symbolic link points; empty when it is none.
inline std::string LinkTarget(const std::string& link) {
  char target[PATH_MAX];
  const ssize_t n = readlink(link.c_str(), target, sizeof target);
  return n > 0 ? std::string(target, static_cast<size_t>(n)) : "";
}

// Absolute, its links resolved; empty where there is none. One without a name ends in " (deleted)".
inline std::string PathOf(int fd) { return LinkTarget("/proc/self/fd/" + std::to_string(fd)); }

}  // namespace atl::preload

#endif  // ATOLL_TESTS_INTEGRATION_PRELOAD_H_
