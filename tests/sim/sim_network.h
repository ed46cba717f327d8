// SPDX-License-Identifier: Apache-2.0
// A simulated network. Each line delivers its parcels in order, after the line's delay. Lost
// parcels are resent and arrive later; a blocked line delivers nothing. Equal seeds give equal
// orders. Not thread-safe.
#ifndef ATOLL_TESTS_SIM_SIM_NETWORK_H_
#define ATOLL_TESTS_SIM_SIM_NETWORK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/executor.h"
#include "common/base/random.h"
#include "common/base/time.h"
#include "tests/support/manual_clock.h"
#include "tests/support/memory_stream.h"

namespace atl {

// One direction of a link as TCP presents it: in order, complete, delayed.
struct LineQuality {
  Duration delay = Milliseconds(1);
  Duration jitter{};  // additional delay, uniform
  double loss = 0;    // probability of a loss; each loss costs a timeout, which doubles
};

class SimNetwork {
 public:
  class Line;
  // The clock outlives it.
  SimNetwork(const ManualClock& clock, uint64_t seed) : clock_(clock), random_(StreamKey(seed, "network")) {}
  // The line lives as long as the network.
  Line& NewLine();
  // Delivers what is due. Returns the number of parcels delivered.
  size_t RunDue();
  // The time of the next delivery; kNever if nothing is in flight.
  Instant Next() const;
  uint64_t delivered() const { return delivered_; }
  uint64_t lost() const { return lost_; }

 private:
  struct Parcel {
    Instant due;
    uint64_t number = 0;
    Line* line = nullptr;
    std::function<void()> job;
  };
  static bool Later(const Parcel& a, const Parcel& b) { return a.due != b.due ? b.due < a.due : b.number < a.number; }
  void Put(Line& line, Instant due, std::function<void()> job);

  const ManualClock& clock_;
  Rng random_;
  uint64_t numbers_ = 0, delivered_ = 0, lost_ = 0;
  std::vector<std::unique_ptr<Line>> lines_;
  std::vector<Parcel> parcels_;  // a heap, the earliest first
};

class SimNetwork::Line final : public Executor {
 public:
  explicit Line(SimNetwork& network) : network_(network) {}
  LineQuality quality;
  void Post(std::function<void()> job) override;
  // While a line is blocked nothing arrives. Afterwards everything arrives in order.
  void Block() { blocked_ = true; }
  void Open();
  bool blocked() const { return blocked_; }

 private:
  friend class SimNetwork;
  SimNetwork& network_;
  Instant last_{};
  bool blocked_ = false;
  std::deque<std::function<void()>> held_;
};

// The two ends of a control stream over `up` and `down`. Work that an in-memory stream does
// immediately runs on `near`, one job at a time. break_connection resets the stream: messages in
// flight are lost, and each end is notified as soon as its line delivers. Each message is passed to
// `worker_says` or `coordinator_says` first.
ControlStreamPair MakeSimStreamPair(Executor& near, SimNetwork::Line& up, SimNetwork::Line& down,
                                    std::function<void(const WorkerMessage&)> worker_says,
                                    std::function<void(const CoordinatorMessage&)> coordinator_says);

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_SIM_NETWORK_H_
