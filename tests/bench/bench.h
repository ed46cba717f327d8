// SPDX-License-Identifier: Apache-2.0
// Timing for the benchmarks of this folder: variants that take turns, so that what else the machine does meets all of
// them alike, and every sample told with the processor time behind it, so that scripts/bench can take medians and
// ratios within a round. Benchmarks only: no test looks at a time.
#ifndef ATOLL_TESTS_BENCH_BENCH_H_
#define ATOLL_TESTS_BENCH_BENCH_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace atl::bench {

struct Variant {
  std::string name;
  double bytes = 0;               // that one run has to move
  std::function<void()> run;      // timed
  std::function<void()> prepare;  // before each run, not timed; may be empty
};

struct Samples {
  std::string name;
  double bytes = 0;
  std::vector<double> seconds;      // one a round
  std::vector<double> cpu_seconds;  // of all threads of this process meanwhile
  // What one run took from the heap for each MiB that it moved (tests/bench/allocations.h); below 0: not counted.
  double own_allocations = -1, own_allocated_bytes = -1, library_allocations = -1;
};

struct Group {
  std::string name;
  unsigned threads = 1;
  double foreign_cores = 0;  // that other processes kept busy meanwhile, steal included
  std::vector<Samples> samples;
};

// Runs every variant once unseen, then once in each round, in order.
Group Interleave(std::string name, unsigned threads, std::vector<Variant> variants, size_t rounds);

// Processor time of this process so far, all threads.
double OwnCpuSeconds();

// work(part) for part 0 to parts - 1, each in a thread, the first in the caller's.
void InParallel(unsigned parts, const std::function<void(unsigned)>& work);

// Elements [first, last) of part `part`; boundaries are multiples of 4,096.
struct Part {
  size_t first = 0, last = 0;
};
Part PartOf(size_t elements, unsigned part, unsigned parts);

// The malloc setting of the programs (large buffers are used again, not mapped anew). First thing in main.
void TuneMalloc();

// What main of most programs does: PROGRAM [ROUNDS [ELEMENTS]], at least one round and 4,096 elements. Exit status.
int Main(int argc, char** argv, const std::function<std::vector<Group>(size_t rounds, size_t elements)>& run);

// Prints all groups as one JSON object, with what is known of the machine.
void PrintJson(const std::vector<Group>& groups);

}  // namespace atl::bench

#endif  // ATOLL_TESTS_BENCH_BENCH_H_
