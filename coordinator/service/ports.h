// SPDX-License-Identifier: Apache-2.0
// The listeners of one coordinator, once they are open: what they turned away, whose connections end, and whether they
// still answer. gRPC may stop to serve a port while the process looks well, so each is dialled as a stranger would.
#ifndef ATOLL_COORDINATOR_SERVICE_PORTS_H_
#define ATOLL_COORDINATOR_SERVICE_PORTS_H_

#include <functional>
#include <map>
#include <string>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/guard/guard.h"

namespace atl {

// Where a listener at "host:port" is reached from this machine: loopback for the addresses that stand for all.
std::string AddressToDial(const std::string& listen_host, int port);

// Thread-safe. Guards are borrowed: nothing is asked of this any more once they end.
class Ports {
 public:
  static constexpr int kMisses = 3;  // dials in a row without an answer, after which a port is given up

  explicit Ports(Log& log) : log_(log) {}
  // `dial` blocks for at most some seconds and fails when nothing answers; called by Dial only.
  void Opened(const std::string& name, guard::Guard& door, std::function<absl::Status()> dial) ATOLL_EXCLUDES(mutex_);
  // Ends the open connections of these certificates, at every port.
  void EndConnections(const std::function<bool(const CertificateFacts&)>& which) ATOLL_EXCLUDES(mutex_);
  // A log line for each port at which connections were turned away since the last one; whether there was any.
  bool TellTurnedAway() ATOLL_EXCLUDES(mutex_);
  // Dials every port, one after the other, and logs what changed. One caller at a time.
  void Dial() ATOLL_EXCLUDES(mutex_);
  // Unavailable, with the port and the reason, while a port has missed kMisses dials in a row.
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
