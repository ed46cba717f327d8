// SPDX-License-Identifier: Apache-2.0
// Symbols that only programs define, and that apply to the libraries in them.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include <cstring>

#include "common/base/process.h"

// Libraries open descriptors before main and would take the place of closed standard streams.
__attribute__((section(".preinit_array"), used)) static void (*const before_libraries)() = &atl::StartBeforeLibraries;

// Replaces pthread_create for all threads of the program, including those of gRPC and LibTorch.
// When the system refuses a thread, std::thread throws and its caller decides. C libraries have no such way: gRPC
// continues without the thread, and its timers or its shutdown then wait forever; OpenMP ends the process in its own
// way. For a call from any library but libstdc++, which contains std::thread, the process therefore ends here.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) noexcept {
  using Create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static Create* const create = reinterpret_cast<Create*>(dlsym(RTLD_NEXT, "pthread_create"));
  const int error = create(thread, attributes, run, argument);
  if (error != EAGAIN) return error;
  Dl_info caller{};
  const bool throws = dladdr(__builtin_return_address(0), &caller) != 0 && caller.dli_fname != nullptr &&
                      std::strstr(caller.dli_fname, "libstdc++") != nullptr;
  if (!throws) atl::EndWithout("a thread");
  return error;
}
