// SPDX-License-Identifier: Apache-2.0
// A network between the machines of a simulation: what is handed to one of its lines is run in order once it has
// arrived, which takes the line's delay, longer for what is lost on the way and sent again, and for ever while the line
// is blocked. One seed, one order. Not thread-safe.
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
#include "common/rpc/memory_stream.h"

namespace atl {

// One way of a link, as TCP gives it: in order, whole, late.
struct LineQuality {
  Duration delay = Milliseconds(1);
  Duration jitter{};  // on top, uniform
  double loss = 0;    // of what is sent; each loss costs a timeout, which doubles
};

class SimNetwork {
 public:
  class Line;
  // The clock outlives it.
  SimNetwork(const ManualClock& clock, uint64_t seed) : clock_(clock), random_(StreamKey(seed, "network")) {}
  // Lives as long as the network.
  Line& NewLine();
  // Runs what has arrived; gives how much that was.
  size_t RunDue();
  // When the next arrives; kNever when nothing is under way.
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
  // While it is blocked nothing arrives; afterwards all does, in order.
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

// Two ends of a control stream over `up` and `down`. What happens at once in memory, `near` (one job at a time) does.
// break_connection resets it: what is under way is lost, and each end hears of it as soon as its line lets it. Whatever
// an end says is told to `worker_says` or `coordinator_says` first.
ControlStreamPair MakeSimStreamPair(Executor& near, SimNetwork::Line& up, SimNetwork::Line& down,
                                    std::function<void(const WorkerMessage&)> worker_says,
                                    std::function<void(const CoordinatorMessage&)> coordinator_says);

}  // namespace atl

#endif  // ATOLL_TESTS_SIM_SIM_NETWORK_H_
