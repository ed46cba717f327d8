// SPDX-License-Identifier: Apache-2.0
// Decides whether the passes of a step are launched or replayed from a recording (worker/device/pass_graph.h),
// and when a recording is made, proved, used and dropped. Pure. Private to worker/train.
//
//   warming --kWarmSteps steps of one shape--> proving --Proved(OK)--> playing
//      ^                                          |                       |
//      +------------- a step of another shape ----+---- from anywhere ----+
//   refused: permanently, after Proved(error), Failed, or too many shapes
#ifndef ATOLL_WORKER_TRAIN_PASS_PLAN_H_
#define ATOLL_WORKER_TRAIN_PASS_PLAN_H_

#include <cstdint>

#include "common/base/status.h"

namespace atl {

// The common properties of all passes of one recording. Passes of another shape, such as the last
// of a step, are launched.
struct PassShape {
  uint32_t sequences = 0, length = 0;
  double scale = 0;  // of the gradients
  friend bool operator==(const PassShape&, const PassShape&) = default;
};

enum class PassMode {
  kLaunch,  // launch passes one by one, and drop an earlier recording
  kProve,   // record a pass, then compute the step by replays and by launches
  kPlay,    // replay the recording
};

// Thread rule: calls must not overlap.
class PassPlan {
 public:
  static constexpr uint32_t kWarmSteps = 3;       // of one shape before it is recorded
  static constexpr uint32_t kMostRecordings = 4;  // with different shapes

  // `usable`: the reason why passes are never recorded; OK if they can be.
  explicit PassPlan(absl::Status usable) : refused_(std::move(usable)) {}

  // Returns the mode of the next step, which has passes of `shape`. After kProve, call Proved before the next step.
  PassMode Next(const PassShape& shape);
  // The result of comparing the recording with launches.
  void Proved(const absl::Status& verdict);
  // A proved recording could not be replayed.
  void Failed(const absl::Status& why);

  // Why passes are not recorded any more; OK: recordings are, or will be, used.
  const absl::Status& refused() const { return refused_; }

 private:
  enum class State { kWarming, kProving, kPlaying };
  absl::Status refused_;
  State state_ = State::kWarming;
  PassShape shape_;
  uint32_t warm_steps_ = 0;  // of shape_
  uint32_t recordings_ = 0;
};

}  // namespace atl

#endif  // ATOLL_WORKER_TRAIN_PASS_PLAN_H_
