// SPDX-License-Identifier: Apache-2.0
#include "common/guard/peers.h"

#include <memory>
#include <utility>

namespace atl::guard {

std::string CallerOf(const Peer& peer) {
  return peer.certificate ? IdentityUri(peer.certificate->identity) : peer.endpoint;
}

void Peers::Add(const std::string& name, Peer peer) {
  const MutexLock lock(mutex_);
  peers_[name] = std::move(peer);
}

void Peers::End(const std::string& name) {
  const MutexLock lock(mutex_);
  ended_.push_back(name);
  if (ended_.size() <= kEnded) return;
  peers_.erase(ended_.front());
  ended_.pop_front();
}

std::optional<Peer> Peers::Find(const std::string& name) const {
  const MutexLock lock(mutex_);
  const auto found = peers_.find(name);
  if (found == peers_.end()) return std::nullopt;
  return found->second;
}

size_t Peers::open() const {
  const MutexLock lock(mutex_);
  return peers_.size() - ended_.size();
}

Peers& ThePeers() {
  static Peers& peers = *std::make_unique<Peers>().release();  // outlives every thread
  return peers;
}

}  // namespace atl::guard
