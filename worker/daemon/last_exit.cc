// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/last_exit.h"

#include <unistd.h>

#include <string>
#include <thread>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/queued_writer.h"

namespace atl {

void EndProcessWithin(Duration limit, int code) {
  std::thread([limit, code] {
    const SystemClock clock;
    const Instant end = clock.Now() + limit;
    Mutex mutex;
    CondVar never;
    MutexLock lock(mutex);
    while (clock.Now() < end) never.WaitFor(mutex, end - clock.Now());
    EndProcess(code, "atoll-worker: the device does not release its resources; the process exits without waiting\n");
  }).detach();
}

void EndProcess(int code, std::string reason) {
  (void)StandardError().WriteLast(std::move(reason));
  _exit(code);
}

}  // namespace atl
