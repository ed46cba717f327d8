// SPDX-License-Identifier: Apache-2.0
// Counts what a program takes from the heap by `operator new`, told apart by who asked: code of the program itself (its
// own and what it has of others' headers, the standard library's calls on its behalf among it) or a shared library
// (gRPC, protobuf, Abseil). What C code takes by malloc, as gRPC's core does for the buffers it receives into, is not
// counted.
//
// A program that links allocations.cc has the counting `operator new`. Benchmarks and their kin among the tests only,
// and not under a sanitizer, whose own it would take the place of.
#ifndef ATOLL_TESTS_BENCH_ALLOCATIONS_H_
#define ATOLL_TESTS_BENCH_ALLOCATIONS_H_

#include <cstdint>
#include <functional>

namespace atl::bench {

struct Allocations {
  uint64_t own_calls = 0, own_bytes = 0;
  uint64_t library_calls = 0, library_bytes = 0;
};

// Of all threads while `run` runs. One count at a time. Each allocation takes microseconds meanwhile: no run that is
// counted is timed.
Allocations CountAllocations(const std::function<void()>& run);

}  // namespace atl::bench

#endif  // ATOLL_TESTS_BENCH_ALLOCATIONS_H_
