// SPDX-License-Identifier: Apache-2.0
// Timing for the benchmarks of this folder. Variants take turns, so that other load on the machine
// affects all of them equally. Every sample carries its processor time, so that scripts/bench can
// compute medians and ratios within a round. Benchmarks only: no test depends on a time.
#ifndef ATOLL_TESTS_BENCH_BENCH_H_
#define ATOLL_TESTS_BENCH_BENCH_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace atl::bench {

struct Variant {
  std::string name;
  double bytes = 0;               // minimum bytes moved by one run
  std::function<void()> run;      // timed
  std::function<void()> prepare;  // before each run, not timed; may be empty
};

struct Samples {
  std::string name;
  double bytes = 0;
  std::vector<double> seconds;      // one per round
  std::vector<double> cpu_seconds;  // of all threads of this process and of CountAlso's
  // Heap allocations of one run per MiB moved (tests/bench/allocations.h); below 0: not counted.
  double own_allocations = -1, own_allocated_bytes = -1, library_allocations = -1;
};

struct Group {
  std::string name;
  unsigned threads = 1;
  double foreign_cores = 0;  // cores used by other processes in the meantime, steal included
  std::vector<Samples> samples;
};

// Runs every variant once untimed, then once per round, in order.
Group Interleave(std::string name, unsigned threads, std::vector<Variant> variants, size_t rounds);

// Counts another process's processor time as this process's own from now on. The function returns it.
void CountAlso(std::function<double()> cpu_seconds);

// Processor time of this process so far, all threads.
double OwnCpuSeconds();

// Calls work(part) for part 0 to parts - 1, each in its own thread, the first in the caller's.
void InParallel(unsigned parts, const std::function<void(unsigned)>& work);

// Elements [first, last) of part `part`; boundaries are multiples of 4,096.
struct Part {
  size_t first = 0, last = 0;
};
Part PartOf(size_t elements, unsigned part, unsigned parts);

// Sets malloc as the programs do: large buffers are reused instead of mapped again. Call first in
// main.
void TuneMalloc();

// The main of most benchmarks: PROGRAM [ROUNDS [ELEMENTS]], at least one round and 4,096 elements.
// Returns the exit status.
int Main(int argc, char** argv, const std::function<std::vector<Group>(size_t rounds, size_t elements)>& run);

// Prints all groups and a description of the machine as one JSON object.
void PrintJson(const std::vector<Group>& groups);

}  // namespace atl::bench

#endif  // ATOLL_TESTS_BENCH_BENCH_H_
