// SPDX-License-Identifier: Apache-2.0
// The open listeners of one coordinator: logs the numbers of refused connections, ends revoked ones, and checks that
// each port answers. gRPC may stop serving a port while the process looks healthy, so each port is dialled as a
// client would.
#ifndef ATOLL_COORDINATOR_SERVICE_PORTS_H_
#define ATOLL_COORDINATOR_SERVICE_PORTS_H_

#include <functional>
#include <map>
#include <string>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/guard/guard.h"
#include "coordinator/engine/engine.h"
#include "coordinator/service/call_guard.h"

namespace atl {

// The address to dial a listener at "host:port" from this machine: loopback for wildcard addresses.
std::string AddressToDial(const std::string& listen_host, int port);

// Thread-safe. Guards are borrowed: no method may be called after they end.
class Ports {
 public:
  static constexpr int kMisses = 3;  // consecutive failed dials after which a port counts as down

  explicit Ports(Log& log) : log_(log) {}
  // `dial` blocks for a few seconds at most and fails if nothing answers. Only Dial calls it.
  void Opened(const std::string& name, guard::Guard& door, std::function<absl::Status()> dial) ATOLL_EXCLUDES(mutex_);
  // Ends the open connections with revoked certificates, at every port, and reports their workers to the engine.
  // Does not wait for that. Both arguments must outlive the guards.
  void EndRevoked(const CallGuard& revoked, Engine& engine) ATOLL_EXCLUDES(mutex_);
  // Logs a line for each port that has refused or ended connections since its last line (failed handshakes
  // count from 100 on). Returns whether there was any.
  bool TellTurnedAway() ATOLL_EXCLUDES(mutex_);
  // Dials every port, one after the other, and logs changes. One caller at a time.
  void Dial() ATOLL_EXCLUDES(mutex_);
  // Unavailable, with the port and the reason, while a port has missed kMisses consecutive dials.
  absl::Status Answering() const ATOLL_EXCLUDES(mutex_);

 private:
  struct Port {
    guard::Guard* door = nullptr;
    std::function<absl::Status()> dial;
    guard::ConnectionCounts told;
    int misses = 0;
    std::string why;  // of the newest miss
  };

  Log& log_;
  mutable Mutex mutex_;
  std::map<std::string, Port> ports_ ATOLL_GUARDED_BY(mutex_);  // only grows
};

}  // namespace atl

#endif  // ATOLL_COORDINATOR_SERVICE_PORTS_H_
