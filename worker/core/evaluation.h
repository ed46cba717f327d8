// SPDX-License-Identifier: Apache-2.0
// An evaluation that this worker is to make, and the newest that it has made. Pure.
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
  std::string why;      // no longer
  Instant deadline;     // the end of it
  bool running = false;
  bool asked = false;  // running: a piece of it is
  // Of the piece that is next: since when what it reads is missing (kNever: it is not), and when it is asked for again.
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
