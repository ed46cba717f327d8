// SPDX-License-Identifier: Apache-2.0
// The rate of one direction of the link, from the worker's own transfers: the best of the newest few, so that a
// single slow one has no effect. Each is scaled to the whole link: its rate times the mean number of transfers
// that shared the direction while it ran. For the coordinator's admission verdict
// (coordinator/core/admission.h); the moving means of LinkTotals are for people. Owned by the turning thread.
#ifndef ATOLL_WORKER_LINK_RATE_WINDOW_H_
#define ATOLL_WORKER_LINK_RATE_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "common/base/time.h"

namespace atl {

class RateWindow {
 public:
  static constexpr size_t kSamples = 5, kLeastSamples = 3;
  // A transfer that is smaller than kBytes and shorter than kTime is mostly round trip and flush:
  // it counts only if its rate exceeds all stored ones.
  static constexpr uint64_t kBytes = 256 * 1024;
  static constexpr Duration kTime = Seconds(5);
  static constexpr uint64_t kLeastBytes = 4096;  // smaller transfers never count

  // `clock` outlives the window and its uses.
  explicit RateWindow(const Clock& clock) : clock_(clock) {}

  // A running transfer, until destroyed. The window outlives it.
  class Use {
   public:
    explicit Use(RateWindow& window);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    friend class RateWindow;
    RateWindow& window_;
    const Instant began_;
    const double shared_;
  };
  std::unique_ptr<Use> Begin() { return std::make_unique<Use>(*this); }
  // Stores the rate of a transfer that moved `bytes` until it was completed, refused, or cancelled at its limit.
  void Sample(const Use& use, uint64_t bytes);

  // The highest of the newest kSamples rates. 0 with fewer than kLeastSamples.
  uint64_t BytesPerSecond() const;

 private:
  void Change(int by);
  // The number of running transfers summed over time, in seconds.
  double Shared() const { return shared_ + running_ * ToSeconds(clock_.Now() - changed_); }

  const Clock& clock_;
  int running_ = 0;
  Instant changed_{};
  double shared_ = 0;
  std::deque<double> rates_;  // newest last
};

}  // namespace atl

#endif  // ATOLL_WORKER_LINK_RATE_WINDOW_H_
