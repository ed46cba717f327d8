// SPDX-License-Identifier: Apache-2.0
// A link with a rate and a delay for real processes on one machine: a relay over loopback TCP. Whoever dials one of its
// ports reaches the target behind that port; all connections of one shaper share its link, each direction for itself,
// in the order in which their bytes arrive, so that bulk bytes stand before a heartbeat as they do on a real line. The
// rate is of TCP's payload. Nothing is lost and nothing is reordered. Benchmarks only.
#ifndef ATOLL_TESTS_BENCH_LINK_SHAPER_H_
#define ATOLL_TESTS_BENCH_LINK_SHAPER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/time.h"

namespace atl::bench {

struct LinkShape {
  double bits_per_second = 0;  // of each direction
  Duration delay{};            // one way
};

// What the line takes in ahead of its rate. A program that wakes up later than this loses so much of the rate.
constexpr Duration kLineQueue = Milliseconds(10);

class LinkShaper {
 public:
  // Listens on 127.0.0.1 at one free port for each of `targets`, which are ports of 127.0.0.1 too. Ends the program
  // where it has no descriptor or port.
  LinkShaper(const LinkShape& shape, const std::vector<uint16_t>& targets);
  ~LinkShaper();
  LinkShaper(const LinkShaper&) = delete;
  LinkShaper& operator=(const LinkShaper&) = delete;

  // In the order of the targets.
  const std::vector<uint16_t>& ports() const;
  // Carries bytes in the calling thread until Stop.
  void Run();
  // From any thread, once.
  void Stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace atl::bench

#endif  // ATOLL_TESTS_BENCH_LINK_SHAPER_H_
