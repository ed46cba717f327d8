// SPDX-License-Identifier: Apache-2.0
// What a program tells the service manager that has started it, in the words of systemd's sd_notify(3) and without its
// library: datagrams to the socket that NOTIFY_SOCKET names. Without that variable nobody is told anything.
#ifndef ATOLL_COMMON_BASE_SERVICE_MANAGER_H_
#define ATOLL_COMMON_BASE_SERVICE_MANAGER_H_

#include <map>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/base/time.h"

namespace atl {

// Thread-safe: it does not change. The calls return within some seconds; OK where nobody is there to be told, and
// Unavailable with the reason where somebody is and does not take it.
class ServiceManager {
 public:
  // Nobody is there.
  ServiceManager() = default;
  // As the environment of the process with this id says: NOTIFY_SOCKET (a path, or with a leading @ a name in the
  // abstract space), WATCHDOG_USEC, and WATCHDOG_PID where the watchdog is meant for one process alone.
  ServiceManager(const std::map<std::string, std::string>& environment, int process);

  // It serves from now on.
  absl::Status Ready() const { return Tell("READY=1"); }
  // It is about to end, in order.
  absl::Status Stopping() const { return Tell("STOPPING=1"); }
  // Its end takes this much longer from now on, at most; to be said again before that is over.
  absl::Status StillStopping(Duration at_most) const;
  // It lives; to be said by whoever knows that, not by a clock. Says nothing where no watchdog is wanted.
  absl::Status Alive() const { return alive_every_.has_value() ? Tell("WATCHDOG=1") : absl::OkStatus(); }
  // How often Alive is wanted at least: half of the time after which who is silent is ended. Empty: never.
  std::optional<Duration> alive_every() const { return alive_every_; }

 private:
  absl::Status Tell(const std::string& words) const;

  std::string socket_;
  std::optional<Duration> alive_every_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_SERVICE_MANAGER_H_
