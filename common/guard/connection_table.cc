// SPDX-License-Identifier: Apache-2.0
#include "common/guard/connection_table.h"

#include <algorithm>

namespace atl::guard {

namespace {

constexpr int kLooks = 8;        // sockets inspected in the search for a connection to end
constexpr size_t kPaces = 1024;  // addresses; beyond that, entries without effect are dropped

}  // namespace

std::optional<uint64_t> ConnectionTable::WhoGivesWay(const std::string* address, const See& see) const {
  std::optional<uint64_t> served, waits;
  int looked = 0;
  for (const auto& [id, since] : silent_) {
    if (address != nullptr && entries_.at(id).address != *address) continue;
    if (!waiting_.contains(id)) {
      if (!served) served = id;
    } else if (looked++ < kLooks && see(id).left) {
      return id;
    } else if (!waits) {
      waits = id;
    }
    if (served && looked >= kLooks) break;
  }
  return served ? served : waits;
}

ConnectionTable::Arrival ConnectionTable::Arrive(uint64_t id, const std::string& address, Instant now, const See& see) {
  Arrival arrival;
  const bool address_full = From(address) >= limits_.per_address;
  if (address_full || entries_.size() >= limits_.connections) {
    arrival.gives_way = WhoGivesWay(address_full ? &address : nullptr, see);
    if (!arrival.gives_way) return arrival;
    Leave(*arrival.gives_way);
  }
  entries_[id] = {.address = address, .filled = now, .calls = double(limits_.calls_at_first)};
  silent_[id] = now;
  waiting_.insert(id);
  ++by_address_[address];
  next_turn_ = std::min(waiting_.size() == 1 ? kNever : next_turn_, TurnOf(id, now));
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
  const auto counted = by_address_.find(it->second.address);
  if (--counted->second == 0) by_address_.erase(counted);
  silent_.erase(id);
  waiting_.erase(id);
  entries_.erase(it);
}

Instant ConnectionTable::TurnOf(uint64_t id, Instant now) const {
  const auto pace = paces_.find(entries_.at(id).address);
  if (pace == paces_.end()) return now;
  const Instant at_once = pace->second.next - limits_.pace * limits_.at_once;
  if (now >= pace->second.slowed_until) return at_once;
  const Instant slowed = std::max(pace->second.next, silent_.at(id) + limits_.shown);
  return std::min(slowed, std::max(at_once, pace->second.slowed_until));
}

void ConnectionTable::Served(const std::string& address, Instant now) {
  if (paces_.size() >= kPaces)
    std::erase_if(paces_, [&](const auto& one) { return now >= one.second.slowed_until && now >= one.second.next; });
  Pace& pace = paces_.try_emplace(address, Pace{now, now}).first->second;
  pace.next = now < pace.slowed_until ? now + limits_.turn : std::max(pace.next, now) + limits_.pace;
}

std::vector<ConnectionTable::Turn> ConnectionTable::TakeTurns(Instant now, const See& see) {
  std::vector<Turn> turns;
  if (now < NextTurn()) return turns;
  next_turn_ = kNever;
  const std::set<uint64_t> waiting = waiting_;
  for (const uint64_t id : waiting) {
    if (const Instant turn = TurnOf(id, now); now < turn) {
      next_turn_ = std::min(next_turn_, turn);
      continue;
    }
    const std::string& address = entries_.at(id).address;
    const auto pace = paces_.find(address);
    const bool slowed = pace != paces_.end() && now < pace->second.slowed_until;
    const Seen seen = slowed ? see(id) : Seen{};
    const bool too_fast = seen.unread > limits_.unserved_bytes;
    turns.push_back({id, too_fast ? Way::kTooFast : seen.left ? Way::kLeft : Way::kServed});
    waiting_.erase(id);
    if (turns.back().way == Way::kServed)
      Served(address, now);
    else
      Leave(id);
  }
  return turns;
}

void ConnectionTable::Slow(const std::string& address, Instant now) {
  Pace& pace = paces_.try_emplace(address, Pace{now, now}).first->second;
  if (now >= pace.slowed_until) pace.next = now;
  pace.slowed_until = now + limits_.slowed;
}

bool ConnectionTable::Move(uint64_t id, const std::string& address) {
  const auto entry = entries_.find(id);
  if (entry == entries_.end()) return false;
  if (From(address) >= limits_.per_address) {
    Leave(id);
    return false;
  }
  const auto counted = by_address_.find(entry->second.address);
  if (--counted->second == 0) by_address_.erase(counted);
  entry->second.address = address;
  ++by_address_[address];
  return true;
}

bool ConnectionTable::Called(uint64_t id, Instant now) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return false;
  Entry& entry = found->second;
  silent_.erase(id);
  const double rate = limits_.calls_per_second;
  entry.calls = std::min(rate, entry.calls + rate * ToSeconds(now - entry.filled)) - 1;
  entry.filled = now;
  if (entry.calls >= 0) return true;
  Slow(entry.address, now);
  Leave(id);
  return false;
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
