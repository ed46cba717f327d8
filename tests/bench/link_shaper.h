// SPDX-License-Identifier: Apache-2.0
// A link with a rate and a delay between real processes on one machine: a loopback TCP relay. Each
// of its ports leads to one target. All connections of a shaper share its link, each direction
// separately, in the order in which bytes arrive, so that a heartbeat queues after bulk bytes as on
// a real line. The rate counts TCP payload. Nothing is lost or reordered. Benchmarks only.
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

// How far ahead of its rate the line accepts bytes. A relay that wakes up later than this loses
// throughput.
constexpr Duration kLineQueue = Milliseconds(10);

class LinkShaper {
 public:
  // Listens on a free port of 127.0.0.1 for each of `targets`, which are ports of 127.0.0.1. Ends
  // the program if descriptors or ports run out.
  LinkShaper(const LinkShape& shape, const std::vector<uint16_t>& targets);
  ~LinkShaper();
  LinkShaper(const LinkShaper&) = delete;
  LinkShaper& operator=(const LinkShaper&) = delete;

  // In the order of the targets.
  const std::vector<uint16_t>& ports() const;
  // Relays in the calling thread until Stop.
  void Run();
  // Thread-safe. Call once.
  void Stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace atl::bench

#endif  // ATOLL_TESTS_BENCH_LINK_SHAPER_H_
