// For libraries that a test loads before a program, to change what its calls do.
#ifndef ATOLL_TESTS_INTEGRATION_PRELOAD_H_
#define ATOLL_TESTS_INTEGRATION_PRELOAD_H_

#include <dlfcn.h>

#include <cstdlib>
#include <string>

namespace atl::preload {

// The function of that name behind this library's.
template <typename Function>
Function* Real(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Of the environment. Without it the program ends: a test that changes nothing shows nothing.
inline std::string Needed(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) std::abort();
  return value;
}

}  // namespace atl::preload

#endif  // ATOLL_TESTS_INTEGRATION_PRELOAD_H_
