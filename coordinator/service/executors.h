// SPDX-License-Identifier: Apache-2.0
// The threads of a coordinator beside the engine's and gRPC's: what each of them runs in order.
#ifndef ATOLL_COORDINATOR_SERVICE_EXECUTORS_H_
#define ATOLL_COORDINATOR_SERVICE_EXECUTORS_H_

#include <cstddef>

#include "common/base/executor.h"

namespace atl {

struct Executors {
  static constexpr size_t kReadThreads = 4;  // they wait for the disk most of the time

  ThreadExecutor calls{1};    // of people: what blocks in them
  ThreadExecutor compute{1};  // the next three: coordinator/engine/data_plane.h
  ThreadExecutor io{1};
  ThreadExecutor snapshot_io{1};
  ThreadExecutor reads{kReadThreads};  // of what is downloaded from files
  ThreadExecutor ledger{1};            // commits, and reads of what was committed
  ThreadExecutor logs{1};              // event logs and the audit log

  // What they hold is finished before anything that it uses goes away, themselves among it: a replay goes from one to
  // another and back. What is posted from now on is dropped.
  void Stop() {
    for (ThreadExecutor* executor : {&calls, &compute, &reads, &io, &snapshot_io, &ledger, &logs}) executor->Stop();
  }
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_EXECUTORS_H_
