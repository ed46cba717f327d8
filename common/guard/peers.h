// SPDX-License-Identifier: Apache-2.0
// The peer of each connection that the guard has passed to gRPC. Each inner socket has a unique
// name. A handler gets the name from its call (ServerContext::peer) and looks up the peer here. A
// peer cannot influence the name.
#ifndef ATOLL_COMMON_GUARD_PEERS_H_
#define ATOLL_COMMON_GUARD_PEERS_H_

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "common/base/mutex.h"
#include "common/trust/certificate.h"

namespace atl::guard {

struct Peer {
  std::string endpoint;                         // in gRPC's form: "ipv4:203.0.113.7:40112"
  std::optional<CertificateFacts> certificate;  // nullopt: plaintext
};

// Name under which the calls of a peer are counted together: its identity; in plaintext its
// connection.
std::string CallerOf(const Peer& peer);

// Thread-safe.
class Peers {
 public:
  static constexpr size_t kEnded =
      1024;  // ended peers remembered, because a call may reach its handler just after the end

  void Add(const std::string& name, Peer peer) ATOLL_EXCLUDES(mutex_);
  // The connection has ended.
  void End(const std::string& name) ATOLL_EXCLUDES(mutex_);
  // nullopt for a name that was never added, or ended before the last kEnded ones.
  std::optional<Peer> Find(const std::string& name) const ATOLL_EXCLUDES(mutex_);
  // Peers whose connection has not ended.
  size_t open() const ATOLL_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::map<std::string, Peer> peers_ ATOLL_GUARDED_BY(mutex_);
  std::deque<std::string> ended_ ATOLL_GUARDED_BY(mutex_);  // oldest first
};

// The peers of this process, in which names are unique.
Peers& ThePeers();

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_PEERS_H_
