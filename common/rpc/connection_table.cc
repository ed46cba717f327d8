#include "common/rpc/connection_table.h"

#include "absl/strings/str_replace.h"

namespace atl {

std::string EndpointOfPeer(const std::string& peer) {
  const size_t scheme = peer.find(':');
  if (scheme == std::string::npos) return peer;
  const std::string rest = peer.substr(scheme + 1);
  return absl::StrReplaceAll(rest, {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}});
}

std::optional<uint64_t> ConnectionTable::OldestSilent(const std::string* address) const {
  for (const auto& [id, since] : silent_) {
    if (address == nullptr || entries_.at(id).address == *address) return id;
  }
  return std::nullopt;
}

ConnectionTable::Arrival ConnectionTable::Arrive(uint64_t id, const std::string& address, const std::string& endpoint,
                                                 Instant now) {
  Arrival arrival;
  const bool address_full = From(address) >= limits_.per_address;
  if (address_full || entries_.size() >= limits_.connections) {
    arrival.gives_way = OldestSilent(address_full ? &address : nullptr);
    if (!arrival.gives_way) return arrival;
    Leave(*arrival.gives_way);
  }
  entries_[id] = {.address = address, .endpoint = endpoint, .window = now};
  silent_[id] = now;
  by_endpoint_[endpoint] = id;
  ++by_address_[address];
  arrival.admitted = true;
  return arrival;
}

std::optional<uint64_t> ConnectionTable::GiveWay() {
  const std::optional<uint64_t> oldest = OldestSilent(nullptr);
  if (oldest) Leave(*oldest);
  return oldest;
}

void ConnectionTable::Leave(uint64_t id) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  const auto named = by_endpoint_.find(it->second.endpoint);
  if (named != by_endpoint_.end() && named->second == id) by_endpoint_.erase(named);
  const auto counted = by_address_.find(it->second.address);
  if (--counted->second == 0) by_address_.erase(counted);
  silent_.erase(id);
  entries_.erase(it);
}

std::optional<uint64_t> ConnectionTable::LeaveNamed(const std::string& endpoint) {
  const auto named = by_endpoint_.find(endpoint);
  if (named == by_endpoint_.end()) return std::nullopt;
  const uint64_t id = named->second;
  Leave(id);
  return id;
}

std::optional<ConnectionTable::Ended> ConnectionTable::Called(const std::string& endpoint, const std::string& token,
                                                              Instant now) {
  const auto named = by_endpoint_.find(endpoint);
  if (named == by_endpoint_.end()) return std::nullopt;
  const uint64_t id = named->second;
  Entry& entry = entries_.at(id);
  silent_.erase(id);
  if (revoked_.contains(token)) {
    Leave(id);
    return Ended{id, Fault::kRevoked};
  }
  entry.token = token;
  if (now - entry.window >= Seconds(1)) {
    entry.window = now;
    entry.calls = 0;
  }
  if (++entry.calls <= limits_.calls_per_second) return std::nullopt;
  Leave(id);
  return Ended{id, Fault::kTooFast};
}

std::vector<uint64_t> ConnectionTable::Revoke(const std::string& token) {
  std::vector<uint64_t> ended;
  if (token.empty()) return ended;
  revoked_.insert(token);
  for (const auto& [id, entry] : entries_) {
    if (entry.token == token) ended.push_back(id);
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
