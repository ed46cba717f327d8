// SPDX-License-Identifier: Apache-2.0
// Counts heap allocations by `operator new`, separately for the program and for shared libraries
// (gRPC, protobuf, Abseil). Code instantiated from other headers, and standard library calls on the
// program's behalf, count as the program's. malloc by C code, such as gRPC core's receive buffers,
// is not counted.
//
// A program that links allocations.cc gets the counting `operator new`. For benchmarks and related
// tests only, and not with a sanitizer, since a sanitizer has its own.
#ifndef ATOLL_TESTS_BENCH_ALLOCATIONS_H_
#define ATOLL_TESTS_BENCH_ALLOCATIONS_H_

#include <cstdint>
#include <functional>

namespace atl::bench {

struct Allocations {
  uint64_t own_calls = 0, own_bytes = 0;
  uint64_t library_calls = 0, library_bytes = 0;
};

// Counts allocations of all threads while `run` runs. One count at a time. Counting makes each
// allocation take microseconds, so a counted run is never timed.
Allocations CountAllocations(const std::function<void()>& run);

}  // namespace atl::bench

#endif  // ATOLL_TESTS_BENCH_ALLOCATIONS_H_
