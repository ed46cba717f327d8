// SPDX-License-Identifier: Apache-2.0
// Exit codes of atoll-worker; published in docs/formats/exit-codes.md. Never renumber.
#ifndef ATOLL_WORKER_DAEMON_EXIT_CODES_H_
#define ATOLL_WORKER_DAEMON_EXIT_CODES_H_

#include "common/base/status.h"

namespace atl {

enum WorkerExitCode : int {
  kWorkerLeft = 0,          // left in order: SIGTERM, SIGINT, drained; or a subcommand did its work
  kWorkerUsage = 2,         // unknown option, wrong value, wrong file, no usable certificate
  kWorkerPrecondition = 3,  // missing: data root, cache folder, device, admin port, checkpoint; or `check` failed
  kWorkerRefused = 4,       // the coordinator refuses this worker: another version, a name in use
  kWorkerNonFinite = 7,     // loss or gradient was not finite three times in a row
  kWorkerIsland = 8,        // a rank of its island died, failed or did not answer: restart it
  kWorkerHung = 9,          // a step, or work between two, did not end: its device hangs or is lost; restart it
};

// The exit code of a rank whose island failed. A restart can help after the loss of a rank, but not
// with wrong options.
inline int IslandExitCode(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status) ? kWorkerUsage : kWorkerIsland;
}

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_EXIT_CODES_H_
