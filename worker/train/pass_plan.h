// SPDX-License-Identifier: Apache-2.0
// Whether the passes of a step are launched one by one, or played from a recording (worker/device/pass_graph.h): when
// one is made, proved, used and given up. Pure: it is told what happened and says what to do. Private to worker/train.
//
//   warming --kWarmSteps steps of one shape--> proving --Proved(OK)--> playing
//      ^                                          |                       |
//      +------------- a step of another shape ----+---- from anywhere ----+
//   refused: for good, after Proved(error), Failed, or too many shapes
#ifndef ATOLL_WORKER_TRAIN_PASS_PLAN_H_
#define ATOLL_WORKER_TRAIN_PASS_PLAN_H_

#include <cstdint>

#include "common/base/status.h"

namespace atl {

// What is the same in all passes of one recording. Those of a step that differ, as its last one may, are launched.
struct PassShape {
  uint32_t sequences = 0, length = 0;
  double scale = 0;  // of the gradients
  friend bool operator==(const PassShape&, const PassShape&) = default;
};

enum class PassMode {
  kLaunch,  // one by one; a recording of another shape is of no use any more
  kProve,   // record one, and take the step both ways
  kPlay,    // by the recording
};

// Thread rule: calls must not overlap.
class PassPlan {
 public:
  static constexpr uint32_t kWarmSteps = 3;       // of one shape before it is recorded
  static constexpr uint32_t kMostRecordings = 4;  // whose shapes came and went

  // `usable` says why nothing is ever recorded; OK: something is.
  explicit PassPlan(absl::Status usable) : refused_(std::move(usable)) {}

  // For the step that comes now. After kProve, Proved is called before the next step.
  PassMode Next(const PassShape& shape);
  // The recording does what the launches do, or why not.
  void Proved(const absl::Status& verdict);
  // A proved recording could not be played.
  void Failed(const absl::Status& why);

  // One sentence; OK: recordings are, or will be, used.
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
