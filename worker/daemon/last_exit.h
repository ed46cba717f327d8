// SPDX-License-Identifier: Apache-2.0
// Ends a process with destructors that may block forever, because a device is lost or waits for a lost rank.
#ifndef ATOLL_WORKER_DAEMON_LAST_EXIT_H_
#define ATOLL_WORKER_DAEMON_LAST_EXIT_H_

#include <string>

#include "common/base/time.h"

namespace atl {

constexpr Duration kLastExit = Seconds(30);  // for a process with a lost device or a broken island to end normally

// Returns at once. If the process still runs after `limit`, by the system's clock, it ends with
// `code`, without destructors. Call it when only the exit is left to do.
void EndProcessWithin(Duration limit, int code);

// Ends the process now, without destructors, after a bounded attempt to flush standard error. `reason`
// is the last text there; empty means none.
[[noreturn]] void EndProcess(int code, std::string reason = "");

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_LAST_EXIT_H_
