// SPDX-License-Identifier: Apache-2.0
// Who is at the other end of a connection that the guard has handed to gRPC. Each inner socket has a name that no other
// has; a handler learns it from its call (ServerContext::peer) and asks here. Nothing that a peer sends takes part.
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
  std::string endpoint;                         // "ipv4:203.0.113.7:40112", as gRPC writes addresses
  std::optional<CertificateFacts> certificate;  // nothing: plaintext
};

// The name by which the calls of one peer are counted together: its identity; in plaintext its connection.
std::string CallerOf(const Peer& peer);

// Thread-safe.
class Peers {
 public:
  static constexpr size_t kEnded = 1024;  // that are remembered: a call may reach its handler just after the end

  void Add(const std::string& name, Peer peer) ATOLL_EXCLUDES(mutex_);
  // The connection has ended.
  void End(const std::string& name) ATOLL_EXCLUDES(mutex_);
  // Nothing for a name that was never added or is forgotten.
  std::optional<Peer> Find(const std::string& name) const ATOLL_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::map<std::string, Peer> peers_ ATOLL_GUARDED_BY(mutex_);
  std::deque<std::string> ended_ ATOLL_GUARDED_BY(mutex_);  // oldest first
};

// Those of this process: names are unique in it.
Peers& ThePeers();

}  // namespace atl::guard

#endif  // ATOLL_COMMON_GUARD_PEERS_H_
