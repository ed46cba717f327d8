// SPDX-License-Identifier: Apache-2.0
// The end of a process whose device may wait for ever for a rank that is lost: destructors then wait for the device.
#ifndef ATOLL_WORKER_DAEMON_LAST_EXIT_H_
#define ATOLL_WORKER_DAEMON_LAST_EXIT_H_

#include "common/base/time.h"

namespace atl {

constexpr Duration kLastExit = Seconds(30);  // for a process of a broken island to end by itself

// Returns at once. If the process is still there after `limit`, by the system's clock, it ends with `code`, without
// destructors. Called when nothing is left to do but to end.
void EndProcessWithin(Duration limit, int code);

// Ends the process now, without destructors, once standard error has taken what is queued for it, or does not.
[[noreturn]] void EndProcess(int code);

}  // namespace atl

#endif  // ATOLL_WORKER_DAEMON_LAST_EXIT_H_
