// For libraries that a test loads before a program, to change what its calls do.
#ifndef ATOLL_TESTS_INTEGRATION_PRELOAD_H_
#define ATOLL_TESTS_INTEGRATION_PRELOAD_H_

#include <dlfcn.h>

#include <atomic>
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

}  // namespace atl::preload

#endif  // ATOLL_TESTS_INTEGRATION_PRELOAD_H_
