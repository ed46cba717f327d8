// SPDX-License-Identifier: Apache-2.0
// The evaluation assigned to this worker, and its newest finished one. Pure.
#ifndef ATOLL_WORKER_CORE_EVALUATION_H_
#define ATOLL_WORKER_CORE_EVALUATION_H_

#include <cstdint>
#include <string>

#include "common/base/time.h"
#include "common/plan/messages.h"

namespace atl::worker {

struct EvaluationWanted {
  EvaluationAssigned assigned;
  Duration patience{};  // for its versions to arrive
  std::string why;      // why it is not longer
  Instant deadline;     // end of the patience
  bool running = false;
  bool asked = false;  // running: a piece is in progress
  // For the next piece: since when its data is missing (kNever: it is not), and when it is requested again.
  Instant delayed_since = kNever, again_at{};
  uint64_t samples = 0;  // held-out samples evaluated so far
  bool held_out_done = false;
  EvaluationDone done;
};

struct EvaluationMade {
  VersionVector versions;
  EvaluationDone done;
};

}  // namespace atl::worker

#endif  // ATOLL_WORKER_CORE_EVALUATION_H_
