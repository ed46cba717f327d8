// SPDX-License-Identifier: Apache-2.0
#include "common/guard/connection_table.h"

#include <algorithm>
#include <tuple>

namespace atl::guard {

namespace {

constexpr int kLooks = 8;                  // sockets inspected in the search for a connection to end
constexpr size_t kPaces = 1024;            // addresses; beyond that, entries without effect are dropped
constexpr Duration kLately = Seconds(10);  // an address that was served longer ago counts as not served
constexpr size_t kMembersFrom = 4096;      // addresses of members' calls; beyond that, the oldest is dropped

void Uncount(std::unordered_map<std::string, size_t>& counts, const std::string& name) {
  const auto counted = counts.find(name);
  if (--counted->second == 0) counts.erase(counted);
}

}  // namespace

std::optional<uint64_t> ConnectionTable::ConnectionToEnd(const std::string* address, const See& see) const {
  size_t most = 0;
  bool of_members = false;  // all that may give way are from members' addresses
  if (address == nullptr) {
    for (const auto& [from, silent] : silent_from_) {
      if (!members_from_.contains(from)) most = std::max(most, silent);
    }
    of_members = most == 0;
    for (const auto& [from, silent] : silent_from_) {
      if (of_members) most = std::max(most, silent);
    }
  }
  std::optional<uint64_t> first, oldest;
  int looked = 0;
  for (const auto& [id, since] : silent_) {
    const std::string& from = entries_.at(id).address;
    if (address == nullptr && silent_from_.at(from) == most && (of_members || !members_from_.contains(from)))
      address = &from;  // of several, that of the oldest
    if (address == nullptr || from != *address) continue;
    if (!oldest) oldest = id;
    const bool waits = waiting_.contains(id);
    const Seen seen = waits && looked < kLooks ? see(id) : Seen{};
    if (waits && looked++ < kLooks && seen.left) return id;
    if (!first && (!waits || seen.unread == 0)) first = id;
    if (first && looked >= kLooks) break;
  }
  return first ? first : oldest;
}

ConnectionTable::Arrival ConnectionTable::Arrive(uint64_t id, const std::string& address, Instant now, const See& see) {
  Arrival arrival;
  if (now >= burst_began_ + kBurstTime) {
    burst_began_ = now;
    burst_ = 0;
  }
  arrival.ends_burst = ++burst_ >= kBurst;
  const bool address_full = !address.empty() && From(address) >= limits_.per_address;
  if (address_full || entries_.size() >= limits_.connections) {
    arrival.gives_way = ConnectionToEnd(address_full ? &address : nullptr, see);
    if (!arrival.gives_way) return arrival;
    Leave(*arrival.gives_way);
  }
  entries_[id] = {.address = address, .filled = now, .calls = double(limits_.calls_at_first)};
  silent_[id] = now;
  ++silent_from_[address];
  waiting_.insert(id);
  ++by_address_[address];
  next_turn_ = std::min(waiting_.size() == 1 ? kNever : next_turn_, TurnOf(id, now));
  arrival.admitted = true;
  return arrival;
}

std::optional<uint64_t> ConnectionTable::GiveWay(const See& see) {
  const std::optional<uint64_t> gives_way = ConnectionToEnd(nullptr, see);
  if (gives_way) Leave(*gives_way);
  return gives_way;
}

void ConnectionTable::NoLongerSilent(uint64_t id) {
  if (silent_.erase(id) > 0) Uncount(silent_from_, entries_.at(id).address);
}

void ConnectionTable::Leave(uint64_t id) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  NoLongerSilent(id);
  Uncount(by_address_, it->second.address);
  if (!it->second.identity.empty()) Uncount(by_identity_, it->second.identity);
  waiting_.erase(id);
  entries_.erase(it);
}

Instant ConnectionTable::TurnOf(uint64_t id, Instant now) const {
  return std::max(TurnAtItsAddress(id, now), TurnOfAll());
}

Instant ConnectionTable::TurnAtItsAddress(uint64_t id, Instant now) const {
  const auto pace = paces_.find(entries_.at(id).address);
  if (pace == paces_.end()) return now;
  const Instant at_once = pace->second.next - limits_.pace * limits_.at_once;
  if (now >= pace->second.slowed_until) return at_once;
  const Instant slowed = std::max(pace->second.next, silent_.at(id) + limits_.shown);
  return std::min(slowed, std::max(at_once, pace->second.slowed_until));
}

void ConnectionTable::Served(const std::string& address, Instant now) {
  if (address.empty()) return;
  if (paces_.size() >= kPaces)
    std::erase_if(paces_, [&](const auto& one) {
      return now >= one.second.slowed_until && now >= one.second.next && now >= one.second.served + kLately;
    });
  Pace& pace = paces_.try_emplace(address, Pace{now, now, now}).first->second;
  pace.next = now < pace.slowed_until ? now + limits_.turn : std::max(pace.next, now) + limits_.pace;
  pace.served = now;
}

uint64_t ConnectionTable::ConnectionToServe(uint64_t oldest, const See& see) const {
  const std::string& address = entries_.at(oldest).address;
  if (!paces_.contains(address)) return oldest;
  for (auto it = waiting_.find(oldest); it != waiting_.end(); ++it) {
    if (entries_.at(*it).address != address) continue;
    if (const Seen seen = see(*it); seen.unread > 0 || seen.left) return *it;
  }
  return oldest;
}

ConnectionTable::Turn ConnectionTable::TakeTurn(uint64_t id, Instant now, const See& see) {
  const std::string address = entries_.at(id).address;
  const auto pace = paces_.find(address);
  const bool slowed = pace != paces_.end() && now < pace->second.slowed_until;
  const Seen seen = pace != paces_.end() ? see(id) : Seen{};
  const bool too_fast = slowed && seen.unread > limits_.unserved_bytes;
  const Way way = too_fast ? Way::kTooFast : seen.left ? Way::kLeft : Way::kServed;
  waiting_.erase(id);
  if (way != Way::kServed) {
    Leave(id);
  } else {
    if (!address.empty()) next_of_all_ = std::max(next_of_all_, now) + limits_.pace_of_all;
    Served(address, now);
  }
  return {id, way};
}

std::vector<ConnectionTable::Turn> ConnectionTable::TakeTurns(Instant now, const See& see) {
  if (now < NextTurn()) return {};
  const Instant last = std::max(next_of_all_, now) + limits_.pace_of_all * (int64_t(waiting_.size()) - 1);
  const bool scarce = last > now + limits_.pace_of_all * limits_.all_at_once;
  return scarce ? TakeTurnsByAddress(now, see) : TakeTurnsByArrival(now, see);
}

std::vector<ConnectionTable::Turn> ConnectionTable::TakeTurnsByArrival(Instant now, const See& see) {
  std::vector<Turn> turns;
  next_turn_ = kNever;
  const std::set<uint64_t> waiting = waiting_;
  for (const uint64_t oldest : waiting) {
    while (waiting_.contains(oldest)) {
      const uint64_t id = TurnOf(oldest, now) <= now ? ConnectionToServe(oldest, see) : oldest;
      if (const Instant turn = TurnOf(id, now); now < turn) {
        next_turn_ = std::min(next_turn_, turn);
        break;
      }
      turns.push_back(TakeTurn(id, now, see));
    }
  }
  return turns;
}

std::vector<ConnectionTable::Turn> ConnectionTable::TakeTurnsByAddress(Instant now, const See& see) {
  std::vector<Turn> turns;
  for (std::optional<uint64_t> next; (next = NextByAddress(now)) && TurnOfAll() <= now;) {
    const uint64_t id = ConnectionToServe(*next, see);
    turns.push_back(TakeTurn(TurnAtItsAddress(id, now) <= now ? id : *next, now, see));
  }
  return turns;
}

std::optional<uint64_t> ConnectionTable::NextByAddress(Instant now) {
  std::optional<uint64_t> next;
  std::tuple<bool, Instant, uint64_t> best;  // the least one: no member called, when it was served, its arrival
  next_turn_ = kNever;
  for (const uint64_t id : waiting_) {
    const Instant turn = TurnAtItsAddress(id, now);
    next_turn_ = std::min(next_turn_, std::max(turn, TurnOfAll()));
    if (turn > now) continue;
    const std::string& address = entries_.at(id).address;
    const auto pace = paces_.find(address);
    const bool lately = pace != paces_.end() && now < pace->second.served + kLately;
    const std::tuple key(!members_from_.contains(address), lately ? pace->second.served : Instant{}, lately ? id : ~id);
    if (next && key >= best) continue;
    next = id;
    best = key;
  }
  return next;
}

void ConnectionTable::Slow(const std::string& address, Instant now) {
  if (address.empty()) return;
  Pace& pace =
      paces_.try_emplace(address, Pace{.next = now, .slowed_until = now, .served = now - kLately}).first->second;
  if (now >= pace.slowed_until) pace.next = now;
  pace.slowed_until = now + limits_.slowed;
}

std::optional<Instant> ConnectionTable::Move(uint64_t id, const std::string& address, Instant now) {
  const auto entry = entries_.find(id);
  if (entry == entries_.end()) return std::nullopt;
  if (From(address) >= limits_.per_address) {
    Leave(id);
    return std::nullopt;
  }
  Uncount(by_address_, entry->second.address);
  ++by_address_[address];
  if (silent_.contains(id)) {
    Uncount(silent_from_, entry->second.address);
    ++silent_from_[address];
  }
  entry->second.address = address;
  const Instant turn = std::max(now, TurnAtItsAddress(id, now));
  Served(address, turn);
  return turn;
}

ConnectionTable::Verdict ConnectionTable::Called(uint64_t id, const std::string& identity, Instant now) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return Verdict::kTooFast;
  Entry& entry = found->second;
  NoLongerSilent(id);
  if (entry.identity.empty() && !identity.empty()) {
    if (const auto has = by_identity_.find(identity);
        has != by_identity_.end() && has->second >= limits_.per_identity) {
      Leave(id);
      return Verdict::kTooMany;
    }
    entry.identity = identity;
    ++by_identity_[identity];
  }
  const double rate = limits_.calls_per_second;
  entry.calls = std::min(rate, entry.calls + rate * ToSeconds(now - entry.filled)) - 1;
  entry.filled = now;
  if (entry.calls >= 0) return Verdict::kAllowed;
  Slow(entry.address, now);
  Leave(id);
  return Verdict::kTooFast;
}

void ConnectionTable::Allowed(uint64_t id, Instant now) {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.identity.empty()) return;
  const std::string& address = found->second.address;
  if (members_from_.size() >= kMembersFrom && !members_from_.contains(address)) {
    members_from_.erase(std::min_element(members_from_.begin(), members_from_.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; }));
  }
  members_from_[address] = now;
}

void ConnectionTable::Faulted(uint64_t id, Instant now) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  const std::string address = found->second.address;
  Leave(id);
  std::erase_if(faults_, [&](const auto& one) { return now - one.second.window >= Seconds(1); });
  Faults& faults = faults_.try_emplace(address, Faults{.window = now}).first->second;
  if (++faults.count > limits_.faults_per_second) Slow(address, now);
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

}  // namespace atl::guard
