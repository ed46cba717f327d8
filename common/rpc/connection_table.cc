#include "common/rpc/connection_table.h"

#include <algorithm>
#include <utility>

#include "common/base/host_port.h"

namespace atl {

std::string EndpointOfPeer(const std::string& peer) {
  const size_t scheme = peer.find(':');
  if (scheme == std::string::npos) return peer;
  std::string endpoint = WithoutBrackets(peer.substr(scheme + 1));
  // The scope of a link-local address, which the socket's own name leaves out.
  const size_t scope = endpoint.find('%'), port = endpoint.rfind(':');
  if (scope != std::string::npos && port != std::string::npos && scope < port) endpoint.erase(scope, port - scope);
  return endpoint;
}

std::optional<uint64_t> ConnectionTable::WhoGivesWay(const std::string* address, const See& see) const {
  std::optional<uint64_t> served, waits;
  for (const auto& [id, since] : silent_) {
    if (address != nullptr && entries_.at(id).address != *address) continue;
    if (!waiting_.contains(id)) {
      if (!served) served = id;
    } else if (see(id).left) {
      return id;
    } else if (!waits) {
      waits = id;
    }
  }
  return served ? served : waits;
}

ConnectionTable::Arrival ConnectionTable::Arrive(uint64_t id, const std::string& address, const std::string& endpoint,
                                                 Instant now, const See& see) {
  Arrival arrival;
  const bool address_full = From(address) >= limits_.per_address;
  if (address_full || entries_.size() >= limits_.connections) {
    arrival.gives_way = WhoGivesWay(address_full ? &address : nullptr, see);
    if (!arrival.gives_way) return arrival;
    Leave(*arrival.gives_way);
  }
  entries_[id] = {.address = address, .endpoint = endpoint, .window = now};
  silent_[id] = now;
  waiting_.insert(id);
  ++by_address_[address];
  arrival.admitted = true;
  return arrival;
}

std::optional<uint64_t> ConnectionTable::GiveWay(const See& see) {
  const std::optional<uint64_t> gives_way = WhoGivesWay(nullptr, see);
  if (gives_way) Leave(*gives_way);
  return gives_way;
}

void ConnectionTable::Leave(uint64_t id) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  const auto named = by_endpoint_.find(it->second.endpoint);
  if (named != by_endpoint_.end() && named->second == id) by_endpoint_.erase(named);
  const auto counted = by_address_.find(it->second.address);
  if (--counted->second == 0) by_address_.erase(counted);
  silent_.erase(id);
  waiting_.erase(id);
  entries_.erase(it);
}

std::vector<ConnectionTable::Turn> ConnectionTable::TakeTurns(Instant now, const See& see) {
  std::vector<Turn> turns;
  for (const uint64_t id : waiting_) {
    const auto slowed = slowed_.find(entries_.at(id).address);
    if (slowed == slowed_.end() || now >= slowed->second.until) {
      turns.push_back({id, Way::kServed});
      continue;
    }
    if (now < slowed->second.next || now < silent_.at(id) + limits_.shown) continue;
    const Seen seen = see(id);
    const bool too_fast = seen.unread > limits_.unserved_bytes;
    turns.push_back({id, too_fast ? Way::kTooFast : seen.left ? Way::kLeft : Way::kServed});
    if (turns.back().way == Way::kServed) slowed->second.next = now + limits_.turn;
  }
  for (const Turn& turn : turns) {
    waiting_.erase(turn.id);
    if (turn.way == Way::kServed)
      by_endpoint_[entries_.at(turn.id).endpoint] = turn.id;
    else
      Leave(turn.id);
  }
  return turns;
}

Instant ConnectionTable::NextTurn() const {
  Instant next = kNever;
  for (const uint64_t id : waiting_) {
    const auto slowed = slowed_.find(entries_.at(id).address);
    if (slowed == slowed_.end()) return Instant{};
    const Instant turn = std::max(slowed->second.next, silent_.at(id) + limits_.shown);
    next = std::min(next, std::min(turn, slowed->second.until));
  }
  return next;
}

void ConnectionTable::Slow(const std::string& address, Instant now) {
  std::erase_if(slowed_, [&](const auto& slowed) { return now >= slowed.second.until; });
  slowed_.try_emplace(address, Slowed{.until = now, .next = now}).first->second.until = now + limits_.slowed;
}

std::optional<uint64_t> ConnectionTable::CalledTooFast(const std::string& endpoint, Instant now) {
  Slow(NetworkOf(WithoutPort(endpoint)), now);
  const auto named = by_endpoint_.find(endpoint);
  if (named == by_endpoint_.end()) return std::nullopt;
  const uint64_t id = named->second;
  Leave(id);
  return id;
}

std::optional<ConnectionTable::Ended> ConnectionTable::Called(const std::string& endpoint, const Caller& caller,
                                                              Instant now) {
  const auto named = by_endpoint_.find(endpoint);
  if (named == by_endpoint_.end()) return std::nullopt;
  const uint64_t id = named->second;
  Entry& entry = entries_.at(id);
  silent_.erase(id);
  if (caller && revoked_ && revoked_(*caller)) {
    Leave(id);
    return Ended{id, Fault::kRevoked};
  }
  entry.caller = caller;
  if (now - entry.window >= Seconds(1)) {
    entry.window = now;
    entry.calls = 0;
  }
  if (++entry.calls <= limits_.calls_per_second) return std::nullopt;
  CalledTooFast(endpoint, now);
  return Ended{id, Fault::kTooFast};
}

std::vector<uint64_t> ConnectionTable::End(Certificates which) {
  revoked_ = std::move(which);
  std::vector<uint64_t> ended;
  for (const auto& [id, entry] : entries_) {
    if (entry.caller && revoked_(*entry.caller)) ended.push_back(id);
  }
  for (const uint64_t id : ended) Leave(id);
  return ended;
}

std::vector<uint64_t> ConnectionTable::TakeSilent(Instant now) {
  std::vector<uint64_t> ended;
  for (const auto& [id, since] : silent_) {
    if (now - since < limits_.without_call) break;
    ended.push_back(id);
  }
  for (const uint64_t id : ended) Leave(id);
  return ended;
}

Instant ConnectionTable::NextSilent() const {
  return silent_.empty() ? kNever : silent_.begin()->second + limits_.without_call;
}

size_t ConnectionTable::From(const std::string& address) const {
  const auto counted = by_address_.find(address);
  return counted == by_address_.end() ? 0 : counted->second;
}

}  // namespace atl
