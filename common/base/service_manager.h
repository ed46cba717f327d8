// SPDX-License-Identifier: Apache-2.0
// Notifications to the service manager that started the program, in the protocol of systemd's
// sd_notify(3) and without its library: datagrams to the socket in NOTIFY_SOCKET. Without that
// variable nothing is sent.
#ifndef ATOLL_COMMON_BASE_SERVICE_MANAGER_H_
#define ATOLL_COMMON_BASE_SERVICE_MANAGER_H_

#include <map>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/base/time.h"

namespace atl {

// Immutable, hence thread-safe. Calls return within a few seconds. They return OK without a service
// manager, and Unavailable with the reason when a service manager does not accept the message.
class ServiceManager {
 public:
  // Without a service manager.
  ServiceManager() = default;
  // Reads NOTIFY_SOCKET (a path, or with a leading @ an abstract name), WATCHDOG_USEC and WATCHDOG_PID
  // from `environment`. No watchdog if WATCHDOG_PID is set and is not `process`, the id of this process.
  ServiceManager(const std::map<std::string, std::string>& environment, int process);

  // The program is ready to serve.
  absl::Status Ready() const { return Tell("READY=1"); }
  // The program starts an orderly shutdown.
  absl::Status Stopping() const { return Tell("STOPPING=1"); }
  // The shutdown takes at most this much longer from now on. Must be repeated before that time is
  // over.
  absl::Status StillStopping(Duration at_most) const;
  // The program is alive. Call this from code that knows so, not from a timer. Sends nothing
  // without a watchdog.
  absl::Status Alive() const { return alive_every_.has_value() ? Tell("WATCHDOG=1") : absl::OkStatus(); }
  // Longest interval between calls of Alive: half of the watchdog's timeout. nullopt: no watchdog.
  std::optional<Duration> alive_every() const { return alive_every_; }

 private:
  absl::Status Tell(const std::string& words) const;

  std::string socket_;
  std::optional<Duration> alive_every_;
};

}  // namespace atl

#endif  // ATOLL_COMMON_BASE_SERVICE_MANAGER_H_
