// SPDX-License-Identifier: Apache-2.0
// Two connected ends of a control stream in memory, for single-threaded harnesses and tests.
#ifndef ATOLL_TESTS_SUPPORT_MEMORY_STREAM_H_
#define ATOLL_TESTS_SUPPORT_MEMORY_STREAM_H_

#include <functional>
#include <memory>

#include "common/base/executor.h"
#include "common/rpc/message_stream.h"

namespace atl {

// Each delivery is one job on `executor`, which must run jobs one at a time (ManualExecutor,
// ThreadExecutor(1)) and outlive both ends. The other end sees a drop without Close as Cancelled.
struct ControlStreamPair {
  std::unique_ptr<WorkerEnd> worker;
  std::unique_ptr<CoordinatorEnd> coordinator;
  // Breaks the connection: both ends get on_closed(Unavailable), and undelivered messages are lost.
  std::function<void()> break_connection;
};
ControlStreamPair MakeControlStreamPair(Executor& executor);

}  // namespace atl

#endif  // ATOLL_TESTS_SUPPORT_MEMORY_STREAM_H_
