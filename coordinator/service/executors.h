// SPDX-License-Identifier: Apache-2.0
// The coordinator's executors. All but `reads` run their work in order.
#ifndef ATOLL_COORDINATOR_SERVICE_EXECUTORS_H_
#define ATOLL_COORDINATOR_SERVICE_EXECUTORS_H_

#include <cstddef>

#include "common/base/executor.h"

namespace atl {

struct Executors {
  static constexpr size_t kReadThreads = 4;  // they mostly wait for the disk

  ThreadExecutor calls{1};    // blocking parts of people's calls
  ThreadExecutor prepare{1};  // `prepare` to `snapshot_io`: see coordinator/engine/data_plane.h
  ThreadExecutor blob_io{1};
  ThreadExecutor blocks{1};
  ThreadExecutor compute{1};
  ThreadExecutor io{1};
  ThreadExecutor snapshot_io{1};
  ThreadExecutor reads{kReadThreads};  // file downloads
  ThreadExecutor ledger{1};            // commits, and reads of committed records
  ThreadExecutor logs{1};              // event logs and the audit log

  // Waits for the queued work of each executor in turn. Call before anything that the work uses is destroyed,
  // executors included, because work on one may post to another. Later posts are dropped.
  void Stop() {
    for (ThreadExecutor* executor :
         {&calls, &prepare, &blob_io, &blocks, &compute, &reads, &io, &snapshot_io, &ledger, &logs})
      executor->Stop();
  }
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_EXECUTORS_H_
