// SPDX-License-Identifier: Apache-2.0
// Symbols that only programs have, and that count for the libraries in them.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include <cstring>

#include "common/base/process.h"

// Libraries open descriptors before main, and would take the place of standard streams that are closed.
__attribute__((section(".preinit_array"), used)) static void (*const before_libraries)() = &atl::StartBeforeLibraries;

// For all threads of the program: ours, gRPC's, LibTorch's. Where the system makes no further thread, std::thread
// throws, and its caller decides. Libraries in C have no such way: gRPC goes on without the thread, and its timers or
// its shutdown then wait for ever; OpenMP ends the process in its own way. For them the process ends here.
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
